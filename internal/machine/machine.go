// Package machine tells what the system says of the machine that a program runs on. It needs no driver.
package machine

import (
	"os"
	goruntime "runtime"
	"strings"

	"github.com/purecuda/purecuda/internal/cleantext"
)

// CPU is the model of the processor as the system tells it, or its architecture.
func CPU() string {
	for _, name := range []string{Field("/proc/cpuinfo", "model name"), os.Getenv("PROCESSOR_IDENTIFIER")} {
		if name != "" {
			return cleantext.String(name)
		}
	}
	return goruntime.GOARCH
}

// DriverVersion is the version of NVIDIA's kernel module, or "" where the system does not tell. The
// version of CUDA that the driver supports is another number.
func DriverVersion() string { return cleantext.String(FirstLine("/sys/module/nvidia/version")) }

// FirstLine is the first line of a file of the system, or "" where there is none.
func FirstLine(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(data), "\n")
	return strings.TrimSpace(line)
}

// Field is the value of the first "key: value" in a file of the system, or "".
func Field(path, key string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.SplitSeq(string(data), "\n") {
		if name, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(name) == key {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
