package dl

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
)

// MappedFile is the file, in this process already, whose name begins with a prefix such as
// "libnvrtc.so.", or "". It is always "" on platforms that do not list what is mapped.
func MappedFile(prefix string) string {
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return ""
	}
	defer maps.Close()
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		at := strings.IndexByte(lines.Text(), '/')
		if at < 0 {
			continue
		}
		path := lines.Text()[at:]
		if strings.HasPrefix(filepath.Base(path), prefix) && !strings.HasSuffix(path, " (deleted)") {
			return path
		}
	}
	return ""
}
