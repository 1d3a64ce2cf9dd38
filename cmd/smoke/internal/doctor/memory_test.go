package doctor

import (
	"os"
	"path/filepath"
	goruntime "runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMemoryOfAControlGroup(t *testing.T) {
	if goruntime.GOOS != "linux" {
		t.Skip("control groups are Linux's")
	}
	limit := func(n uint64) *uint64 { return &n }
	for name, c := range map[string]struct {
		files map[string]string
		want  *uint64
	}{
		"no groups": {nil, nil},
		"no limit":  {map[string]string{"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/memory.max": "max\n"}, nil},
		"container": {map[string]string{"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/memory.max": "536870912\n"}, limit(512 << 20)},
		"container with the path of its host": {map[string]string{"/proc/self/cgroup": "0::/kubepods/pod1\n",
			"/sys/fs/cgroup/memory.max": "1024\n"}, limit(1024)},
		"the group above has the smaller limit": {map[string]string{"/proc/self/cgroup": "0::/a/b/c\n", "/sys/fs/cgroup/a/b/c/memory.max": "max\n",
			"/sys/fs/cgroup/a/b/memory.max": "3000\n", "/sys/fs/cgroup/a/memory.max": "2000\n"}, limit(2000)},
		"version 1": {map[string]string{"/proc/self/cgroup": "11:cpu,cpuacct:/x\n9:hugetlb,memory:/docker/7\n",
			"/sys/fs/cgroup/memory/docker/7/memory.limit_in_bytes": "4096\n", "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, limit(4096)},
		"version 1 without a limit": {map[string]string{"/proc/self/cgroup": "9:memory:/\n",
			"/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, nil},
		"nonsense": {map[string]string{"/proc/self/cgroup": "\n:\n0::../../..\nmemory\n", "/sys/fs/cgroup/memory.max": "-1\n"}, nil},
	} {
		root := t.TempDir()
		for path, content := range c.files {
			path = filepath.Join(root, path)
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
			require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		}
		assert.Equal(t, c.want, memory(root).Group, name)
	}
}
