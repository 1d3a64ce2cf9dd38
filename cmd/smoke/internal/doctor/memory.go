package doctor

import (
	"math"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strconv"
	"strings"
)

// Memory is how much memory of the host this process may have. Page-locked memory counts in the
// limit of its control group.
type Memory struct {
	// Locked is RLIMIT_MEMLOCK in bytes: what an unprivileged process may lock by mlock. It holds for
	// other libraries, such as InfiniBand's; NVIDIA's driver locks memory in the kernel.
	Locked *uint64 `json:"memlock,omitempty"` // nil: no limit, or not known
	// Group is the smallest limit of the control groups that the process is in.
	Group *uint64 `json:"cgroup,omitempty"` // nil: no limit, or not known
}

func memory(root string) Memory {
	m := Memory{Locked: memlock()}
	if goruntime.GOOS != "linux" {
		return m
	}
	groups, _ := os.ReadFile(filepath.Join(root, "/proc/self/cgroup")) // none: no limit
	for line := range strings.Lines(string(groups)) {
		// "0::/path" is of version 2, and "9:memory:/path" of version 1.
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, path, _ := strings.Cut(rest, ":")
		switch {
		case controllers == "":
			m.limit(filepath.Join(root, "/sys/fs/cgroup"), path, "memory.max")
		case strings.Contains(","+controllers+",", ",memory,"):
			m.limit(filepath.Join(root, "/sys/fs/cgroup/memory"), path, "memory.limit_in_bytes")
		}
	}
	return m
}

// limit notes the smallest limit of a group and of those that it is in. A container may see its own
// group as the first of all, under the path that its host knows.
func (m *Memory) limit(root, group, file string) {
	for group = filepath.Clean("/" + group); ; group = filepath.Dir(group) {
		limit, err := strconv.ParseUint(firstLine(root, group, file), 10, 64)
		const none = math.MaxInt64 &^ 0xffff // what version 1 has where there is no limit
		if err == nil && limit < none && (m.Group == nil || limit < *m.Group) {
			m.Group = &limit
		}
		if group == "/" {
			return
		}
	}
}
