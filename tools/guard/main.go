// Guard measures two commits and C in turns on one host, and fails where the second commit is slower. scripts/gpu-bundle
// --against COMMIT builds it with the purecuda of each commit, and scripts/gpu-run calls it.
//
//	guard run [flags]       measure and compare; one program serves each side
//	guard table FILE        print the table of a run again
//	guard serve [flags]     measure what stdin asks for: see serve
//
// Exit codes: 0 nothing is worse, 1 something is worse or failed, 2 usage, 3 no driver or no device.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/runtime"
)

const (
	exitWorse = 1
	exitUsage = 2
	exitNoGPU = 3
)

// simulateVariable tells children of isolate how many devices to simulate.
const simulateVariable = "GUARD_SIMULATE"

// atStart runs before flags are read.
var atStart []func()

func main() {
	for _, f := range atStart {
		f()
	}
	code, err := exitUsage, errors.New("usage: guard run|table|serve; guard run -h lists the flags")
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "run":
			code, err = runMain(os.Args[2:])
		case "table":
			code, err = tableMain(os.Args[2:])
		case "serve":
			code, err = serveMain(os.Args[2:])
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "guard:", err)
		if code == 0 {
			code = exitWorse
		}
	}
	os.Exit(code)
}

// machine is what a side measures.
type machine struct {
	rt        *runtime.Runtime
	simulated *drivertest.Driver // or nil
	smoke     string             // the program of this side, for the job
	input     string             // of the job
}

// configure adds to the configuration of simulated devices.
var configure []func(*drivertest.Config)

// openMachine opens the GPUs of this machine, or n simulated ones.
func openMachine(n int) (*machine, error) {
	m := &machine{}
	options := []runtime.Option{runtime.WithPolicy(runtime.PolicyRequired)}
	if n > 0 {
		config := drivertest.Config{Devices: drivertest.Devices(n, drivertest.H100())}
		for _, f := range configure {
			f(&config)
		}
		m.simulated = drivertest.New(config)
		options = append(options, runtime.WithDriver(m.simulated))
	}
	var err error
	m.rt, err = runtime.Open(options...)
	return m, err
}

// openForChild opens the devices in a child of isolate.
func openForChild() (*runtime.Runtime, error) {
	n, _ := strconv.Atoi(os.Getenv(simulateVariable))
	m, err := openMachine(n)
	return m.rt, err
}

func serveMain(args []string) (int, error) {
	flags := flag.NewFlagSet("guard serve", flag.ExitOnError)
	simulate := flags.Int("simulate", 0, "measure so many simulated devices")
	smoke := flags.String("smoke", "", "the program smoke, for the job")
	input := flags.String("input", "", "a file for the job")
	_ = flags.Parse(args)
	if *simulate > 0 {
		os.Setenv(simulateVariable, strconv.Itoa(*simulate))
	}
	m, err := openMachine(*simulate)
	if err != nil && *simulate == 0 {
		if _, absent := driver.Open(); errors.Is(absent, driver.ErrDriverLibraryUnavailable) {
			return exitNoGPU, err
		}
	}
	if err != nil {
		return exitWorse, err
	}
	m.smoke, m.input = *smoke, *input
	err = serve(m, os.Stdin, os.Stdout)
	return 0, errors.Join(err, m.rt.Close())
}
