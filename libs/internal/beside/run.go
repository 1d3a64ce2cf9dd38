package beside

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Run runs scripts/baseline/NAME.c with the path of the library that this process has loaded. It returns by name
// what the program prints: the nanoseconds of a call, and on the device where it tells. For hosts without a compiler
// PURECUDA_NAME_BASELINE names the program that it was compiled to. It starts in the folder of a package of libs.
func Run(program, library string) (map[string][2]float64, error) {
	variable := "PURECUDA_" + strings.ToUpper(program) + "_BASELINE"
	path := os.Getenv(variable)
	if path == "" {
		dir, err := os.MkdirTemp("", program)
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		path = filepath.Join(dir, program)
		if out, err := exec.Command("cc", "-O2", "-o", path, "../../scripts/baseline/"+program+".c", "-ldl").CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%w: %s; %s names a program that was built elsewhere", err, out, variable)
		}
	}
	cmd := exec.Command(path, library)
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+folders()+os.Getenv("LD_LIBRARY_PATH"))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	times := map[string][2]float64{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) < 4 || !strings.HasPrefix(line, "Benchmark") {
			return nil, fmt.Errorf("%s printed %q, which is no line of a benchmark", path, line)
		}
		var ns [2]float64
		for i, unit := range []string{"ns/op", "device-ns/op"} {
			if at := slices.Index(fields, unit); at > 0 {
				if ns[i], err = strconv.ParseFloat(fields[at-1], 64); err != nil {
					return nil, fmt.Errorf("%s printed %q: %w", path, line, err)
				}
			}
		}
		times[strings.TrimPrefix(fields[0], "Benchmark")] = ns
	}
	return times, nil
}

// folders are those of the CUDA libraries of this process: what the library asks for may be in none that the loader knows.
func folders() (all string) {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return ""
	}
	seen := map[string]bool{}
	for line := range strings.Lines(string(maps)) {
		at := strings.IndexByte(line, '/')
		if at < 0 {
			continue
		}
		folder, name := filepath.Split(strings.TrimSpace(line[at:]))
		if (strings.HasPrefix(name, "libcu") || strings.HasPrefix(name, "libnv")) && !seen[folder] {
			seen[folder] = true
			all += folder + ":"
		}
	}
	return all
}
