package bench

import (
	"os"
	"strconv"
	"strings"
)

// threads is how many threads the process has, or 0 where that cannot be read.
func threads() int {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if text, found := strings.CutPrefix(line, "Threads:"); found {
			n, _ := strconv.Atoi(strings.TrimSpace(text))
			return n
		}
	}
	return 0
}
