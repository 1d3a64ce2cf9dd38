package doctor

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
)

// File is a file that the driver works through.
type File struct {
	Path   string `json:"path"`
	Exists bool   `json:"exists"`
	// Owner and mode: "uid 0, gid 44, mode crw-rw----".
	Owner string `json:"owner,omitempty"`
	// Opens says that this user may open it; Reason why not.
	Opens  bool   `json:"opens"`
	Reason string `json:"reason,omitempty"`
	// Content is its first line, of /proc/driver/nvidia/version.
	Content string `json:"content,omitempty"`
}

// kernelVersion is the file with the release of the driver's kernel module.
const kernelVersion = "/proc/driver/nvidia/version"

// deviceFiles are where the driver's files are: patterns, and the name to tell where none
// matches.
var deviceFiles = []struct{ pattern, name string }{
	{"/dev/nvidiactl", "/dev/nvidiactl"},
	{"/dev/nvidia[0-9]*", "/dev/nvidia0"},
	{"/dev/nvidia-uvm", "/dev/nvidia-uvm"},
	{"/dev/nvidia-caps/*", "/dev/nvidia-caps"}, // MIG
	{"/dev/dxg", "/dev/dxg"},                   // WSL 2
	{"/dev/nvmap", "/dev/nvmap"},               // Tegra
	{kernelVersion, kernelVersion},
}

// files opens the device files. Nothing but opening tells: a container may forbid what the
// mode allows.
func files(root string, tell func(Finding)) {
	var list []File
	if goruntime.GOOS != "linux" {
		tell(Finding{Files: list})
		return
	}
	for _, f := range deviceFiles {
		paths, _ := filepath.Glob(filepath.Join(root, f.pattern)) // the patterns are right
		if len(paths) == 0 {
			list = append(list, File{Path: f.name})
		}
		for _, path := range paths {
			shown := "/" + strings.TrimPrefix(strings.TrimPrefix(path, filepath.Clean(root)), "/")
			list = append(list, File{Path: shown, Exists: true, Reason: "did not come back"})
			tell(Finding{Doing: "opening " + shown, Files: list})
			list[len(list)-1] = openFile(path, shown)
		}
	}
	tell(Finding{Files: list})
}

func openFile(path, shown string) File {
	f := File{Path: shown, Exists: true}
	info, err := os.Stat(path)
	if err != nil {
		f.Exists, f.Reason = !errors.Is(err, fs.ErrNotExist), cause(err)
		return f
	}
	f.Owner = owner(info)
	mode := os.O_RDWR
	if shown == kernelVersion || strings.HasPrefix(shown, "/dev/nvidia-caps/") {
		mode = os.O_RDONLY
	}
	file, err := os.OpenFile(path, mode, 0)
	if err != nil {
		f.Reason = cause(err)
		return f
	}
	defer file.Close()
	f.Opens = true
	if shown == kernelVersion {
		content := make([]byte, 4096)
		n, _ := file.Read(content) // nothing is as good as an error here
		f.Content, _, _ = strings.Cut(string(content[:n]), "\n")
	}
	return f
}
