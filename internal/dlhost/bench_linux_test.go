package dlhost_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/purecuda/purecuda/internal/dlhost"
)

// BenchmarkStart measures a whole life of a program that does nothing, in turns: what a
// plain static program takes and a declined start of one with purego, and what a stock
// program with purego takes and a hosted one.
func BenchmarkStart(b *testing.B) {
	if _, err := os.Stat(loaderPath); err != nil {
		b.Skip("this machine has no " + loaderPath)
	}
	plain := build{source: plainSource, stock: true}
	probe, stock := build{source: probeSource}, build{source: probeSource, stock: true}
	pie, stockPIE := build{source: probeSource, mode: "pie"}, build{source: probeSource, mode: "pie", stock: true}
	for _, c := range []struct {
		name string
		build
		word string
	}{
		{"plain", plain, ""}, {"declined", probe, "auto"}, {"stock", stock, ""}, {"hosted", probe, "host"},
		{"declined-pie", pie, "auto"}, {"stock-pie", stockPIE, ""}, {"hosted-pie", pie, "host"},
	} {
		path := c.make(b)
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				cmd := exec.Command(path)
				cmd.Env = []string{dlhost.Variable + "=" + c.word}
				if err := cmd.Run(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
