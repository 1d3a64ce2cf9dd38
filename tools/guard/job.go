package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// The job of the program smoke, over a file in memory, on one device and on all. A run is a process. Its time is that which
// it tells. C reads the file into page-locked memory and copies it to the devices, and does nothing else.
func init() {
	suites = append(suites, func(m *machine) *suite {
		s := &suite{open: func(*closers) error {
			if m.smoke == "" || m.input == "" {
				return skip("the job needs the flags -smoke and -input")
			}
			return nil
		}}
		counts := []int{1}
		if n := len(m.rt.Devices()); n > 1 {
			counts = append(counts, n)
		}
		for _, n := range counts {
			readers := 16
			if n == 1 {
				readers = 12
			}
			s.add(benchmark{fmt.Sprintf("Job/devices=%d", n),
				inC{[]string{"job", "-file", m.input, "-readers", fmt.Sprint(readers), "-devices", fmt.Sprint(n)},
					fmt.Sprintf("Job/bound=transfer/gpus=%d/readers=%d/way=upload", n, readers)},
				func(time.Duration) ([]value, error) { return m.job(n) }})
		}
		return s
	})
}

func (m *machine) job(devices int) ([]value, error) {
	args := []string{"--input", m.input, "--verify", "none", "--json"}
	if n := os.Getenv(simulateVariable); n != "" {
		args = append(args, "--simulate", n)
	} else {
		var ordinals []string
		for _, d := range m.rt.Devices()[:devices] {
			ordinals = append(ordinals, fmt.Sprint(d.Ordinal))
		}
		args = append(args, "--policy", "required", "--devices", strings.Join(ordinals, ","))
	}
	cmd := exec.Command(m.smoke, args...)
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	var doc struct {
		Job struct {
			Seconds float64 `json:"seconds"`
		} `json:"job"`
	}
	if err := errors.Join(err, json.Unmarshal(text, &doc)); err != nil || doc.Job.Seconds <= 0 {
		return nil, fmt.Errorf("%v took %v s: %w", cmd, doc.Job.Seconds, err)
	}
	return []value{{"ns/op", doc.Job.Seconds * 1e9}}, nil
}
