package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/purecuda/purecuda/runtime"
)

// readLine is the first line of a file of the kernel, or "" where there is none.
func readLine(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(data), "\n")
	return strings.TrimSpace(line)
}

// field is the value of "key: value" in a file of the kernel, or "".
func field(path, key string) string {
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

// cpuName is the model of the CPU as Linux tells it, or "".
func cpuName() string { return field("/proc/cpuinfo", "model name") }

// driverVersion is the version of NVIDIA's kernel module, or "" where it does not tell. The
// version of CUDA that the driver supports is another number.
func driverVersion() string { return readLine("/sys/module/nvidia/version") }

// freeHostMemory is what this process can still use, by the system and by its control group, or
// 0 if that is unknown.
func freeHostMemory() int64 {
	free := int64(0)
	kib, unit, _ := strings.Cut(field("/proc/meminfo", "MemAvailable"), " ")
	if n, err := strconv.ParseInt(kib, 10, 64); err == nil && unit == "kB" {
		free = n << 10
	}
	for _, group := range []struct{ limit, used string }{
		{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"},
		{"/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"},
	} {
		limit, err := strconv.ParseInt(readLine(group.limit), 10, 64) // "max" is no number
		used, errUsed := strconv.ParseInt(readLine(group.used), 10, 64)
		if err == nil && errUsed == nil && limit > used && (free == 0 || limit-used < free) {
			free = limit - used
		}
	}
	return free
}

// gpuNames is "2 x NVIDIA H100 80GB HBM3", or several of those.
func gpuNames(devices []runtime.Device) string {
	var names []string
	count := map[string]int{}
	for _, d := range devices {
		if count[d.Name] == 0 {
			names = append(names, d.Name)
		}
		count[d.Name]++
	}
	slices.Sort(names)
	for i, name := range names {
		if n := count[name]; n > 1 {
			names[i] = fmt.Sprintf("%d x %s", n, name)
		}
	}
	return strings.Join(names, ", ")
}
