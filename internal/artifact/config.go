package artifact

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
)

// DirVariable names the environment variable with the folder of the cache, or "off".
const DirVariable = "PURECUDA_CACHE_DIR"

// DefaultLimit is the size in bytes that the cache is kept below.
const DefaultLimit = 1 << 30

// subfolder is where the files lie. It is made by us with mode 0700, whatever the mode of
// the folder around it, which others use as well: the driver's own cache is beside it.
const subfolder = "artifacts"

// Config says where the cache is. The zero value is the usual place.
type Config struct {
	// Dir is the folder. The default is what PURECUDA_CACHE_DIR says, or else
	// "purecuda" in the user's cache directory. "off" turns the cache off.
	Dir string
	// Limit is the size in bytes of all entries together; 0 is DefaultLimit. When it is
	// exceeded, the entries that were not used for longest go. An entry larger than
	// a quarter of it is not kept.
	Limit int64
	// Logger hears of all trouble. The default is silence.
	Logger *slog.Logger
}

// folder is the directory of the entries, or "" for off.
func (c Config) folder() (string, error) {
	dir := strings.TrimSpace(c.Dir)
	if dir == "" {
		dir = strings.TrimSpace(os.Getenv(DirVariable))
	}
	if strings.EqualFold(dir, "off") {
		return "", nil
	}
	if dir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("%w; set %s", err, DirVariable)
		}
		dir = filepath.Join(user, "purecuda")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, subfolder), nil
}

// openPrivate makes the directory if need be and opens it, if it is the user's alone.
func openPrivate(dir string) (*os.Root, error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return nil, err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
		return nil, err
	}
	named, err := os.Lstat(dir)
	if err != nil {
		return nil, err
	}
	if !named.IsDir() {
		return nil, fmt.Errorf("%s is a link or a file, not a directory", dir)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	opened, err := root.Stat(".")
	if err == nil && !os.SameFile(named, opened) {
		err = fmt.Errorf("%s was replaced while it was opened", dir)
	}
	if err == nil {
		err = private(dir, opened)
	}
	if err != nil {
		root.Close()
		return nil, err
	}
	return root, nil
}
