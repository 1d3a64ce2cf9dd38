package runtime

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestCandidates(t *testing.T) {
	ptx := func(target string) Image {
		return Image{Code: []byte("// made by hand\n.version 6.4\n.target " + target + ", texmode_independent\n.address_size 64\n")}
	}
	cubin := func(arch int) Image { return Image{Arch: arch, Code: []byte("\x7fELF")} }
	fatbin := Image{Code: []byte{0x50, 0xed, 0x55, 0xba}}
	for _, c := range []struct {
		name   string
		images []Image
		device Capability
		tried  []string
		not    []string // the reasons
	}{
		{"none", nil, Capability{9, 0}, nil, nil},
		{"the only one", []Image{ptx("sm_75")}, Capability{9, 0}, []string{"PTX 6.4 for sm_75"}, nil},
		{"the newest target that fits", []Image{ptx("sm_75"), ptx("sm_90"), ptx("sm_100"), ptx("sm_80")}, Capability{9, 0},
			[]string{"PTX 6.4 for sm_90", "PTX 6.4 for sm_80", "PTX 6.4 for sm_75"}, []string{"PTX for compute capability 10.0"}},
		{"too new", []Image{ptx("sm_120")}, Capability{9, 0}, nil, []string{"PTX for compute capability 12.0"}},
		{"for one device only", []Image{ptx("sm_90a"), ptx("sm_75")}, Capability{9, 0}, []string{"PTX 6.4 for sm_90a", "PTX 6.4 for sm_75"}, nil},
		{"for a family of devices", []Image{ptx("sm_100f"), ptx("sm_75")}, Capability{10, 3}, []string{"PTX 6.4 for sm_100f", "PTX 6.4 for sm_75"}, nil},
		{"for another family", []Image{ptx("sm_100f"), ptx("sm_75")}, Capability{12, 0}, []string{"PTX 6.4 for sm_75"}, []string{"PTX for sm_100f"}},
		{"for another device only", []Image{ptx("sm_90a"), ptx("sm_75")}, Capability{10, 0}, []string{"PTX 6.4 for sm_75"}, []string{"PTX for sm_90a"}},
		{"PTX that says its target wrongly", []Image{{Arch: 80, Code: ptx("sm_75").Code}}, Capability{7, 5}, nil, []string{"PTX for compute capability 8.0"}},
		{"PTX without a target", []Image{{Code: []byte(".version 6.4\n")}}, Capability{9, 0}, []string{"PTX 6.4"}, nil},
		{"not even a version", []Image{{Code: nil}}, Capability{9, 0}, []string{"PTX"}, nil},

		{"machine code before PTX", []Image{ptx("sm_90"), cubin(90)}, Capability{9, 0}, []string{"machine code for sm_90", "PTX 6.4 for sm_90"}, nil},
		{"machine code of the same major version", []Image{cubin(80), cubin(86), cubin(89)}, Capability{8, 6},
			[]string{"machine code for sm_86", "machine code for sm_80"}, []string{"machine code for compute capability 8.9"}},
		{"machine code of another major version", []Image{cubin(75), cubin(100)}, Capability{9, 0}, nil,
			[]string{"machine code for compute capability 10.0", "machine code for compute capability 7.5"}},
		{"a fatbin knows itself what is in it", []Image{ptx("sm_75"), fatbin}, Capability{9, 0}, []string{"machine code", "PTX 6.4 for sm_75"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var tried, not []string
			for _, candidate := range candidates(c.images, c.device) {
				if candidate.reason == "" {
					tried = append(tried, candidate.String())
				} else {
					not = append(not, candidate.reason)
				}
			}
			assert.Equal(t, c.tried, tried)
			assert.Equal(t, c.not, not)
		})
	}
}
