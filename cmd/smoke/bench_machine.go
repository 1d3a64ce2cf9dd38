package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/purecuda/purecuda/internal/machine"
	"github.com/purecuda/purecuda/runtime"
)

// freeHostMemory is what this process can still use, by the system and by its control group, or
// 0 if that is unknown.
func freeHostMemory() int64 {
	free := int64(0)
	kib, unit, _ := strings.Cut(machine.Field("/proc/meminfo", "MemAvailable"), " ")
	if n, err := strconv.ParseInt(kib, 10, 64); err == nil && unit == "kB" {
		free = n << 10
	}
	for _, group := range []struct{ limit, used string }{
		{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"},
		{"/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"},
	} {
		limit, err := strconv.ParseInt(machine.FirstLine(group.limit), 10, 64) // "max" is no number
		used, errUsed := strconv.ParseInt(machine.FirstLine(group.used), 10, 64)
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
