package doctor

import (
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/nvml"
	"github.com/purecuda/purecuda/internal/artifact"
	"github.com/purecuda/purecuda/internal/dlhost"
	"github.com/purecuda/purecuda/nvrtc"
	"github.com/purecuda/purecuda/runtime"
)

// Process is how this process was started and by whom.
type Process struct {
	// Start is "ordinary" (by the system, with its loader where the program asks for one),
	// "hosted" (docs/deploy.md) or "static".
	Start  string `json:"start"`
	Loader bool   `json:"loader"`           // libraries can be loaded
	Reason string `json:"reason,omitempty"` // why not
	UID    int    `json:"uid"`              // -1 where there is none
	GID    int    `json:"gid"`
	Groups []int  `json:"groups"`
}

func process() Process {
	status := dlhost.Current()
	p := Process{Start: status.Mode.String(), Reason: status.Reason, UID: os.Geteuid(), GID: os.Getegid(), Groups: []int{}}
	p.Loader, _ = driver.HasLoader()
	if err := dlhost.Check(); err != nil {
		p.Reason = err.Error()
	}
	if groups, err := os.Getgroups(); err == nil && groups != nil {
		p.Groups = groups
	}
	return p
}

// Policy is what [runtime.Open] does in this environment.
type Policy struct {
	Policy string `json:"policy"` // "auto", "off", "required"; "" for a word that is none of them
	From   string `json:"from"`   // the variable, or "default"
	Reason string `json:"reason,omitempty"`
}

func policy() Policy {
	text := os.Getenv(runtime.PolicyVariable)
	p := Policy{From: runtime.PolicyVariable}
	if strings.TrimSpace(text) == "" {
		p.From = "default"
	}
	parsed, err := runtime.ParsePolicy(text)
	if err != nil {
		p.Reason = failureOf(err).Detail
	}
	p.Policy = string(parsed)
	return p
}

// Variable is a variable of the environment.
type Variable struct {
	Name  string `json:"name"`
	Set   bool   `json:"set"`
	Value string `json:"value,omitempty"`
	// Default is what the runtime sets it to if it is not set.
	Default string `json:"default,omitempty"`
}

// variables are those that decide about CUDA.
var variables = []string{
	runtime.PolicyVariable, driver.PathVariable, nvrtc.PathVariable, nvml.PathVariable, artifact.DirVariable, dlhost.Variable,
	visibleVariable, containerVariable, capabilitiesVariable, runtime.ConnectionsVariable, "LD_LIBRARY_PATH",
}

const (
	visibleVariable      = "CUDA_VISIBLE_DEVICES"
	containerVariable    = "NVIDIA_VISIBLE_DEVICES"
	capabilitiesVariable = "NVIDIA_DRIVER_CAPABILITIES"
)

func environment() []Variable {
	list := make([]Variable, len(variables))
	for i, name := range variables {
		value, set := os.LookupEnv(name)
		list[i] = Variable{Name: name, Set: set, Value: value}
		if name == runtime.ConnectionsVariable && !set {
			list[i].Default = runtime.DefaultConnections
		}
	}
	return list
}

// Machine is what the machine is.
type Machine struct {
	Kernel string `json:"kernel,omitempty"`
	WSL    bool   `json:"wsl"`
	// Container has the signs that this is a container: "/.dockerenv", "cgroup: kubepods".
	Container []string `json:"container"`
	// PCI has the addresses of NVIDIA's GPUs on the PCI bus.
	PCI []string `json:"pci_gpus"`
	// Memory is what the process may have of the host's.
	Memory Memory `json:"memory"`
}

// cgroups are words in the names of control groups that container engines choose.
var cgroups = []string{"docker", "kubepods", "containerd", "libpod", "lxc", "garden"}

func machine(root string) Machine {
	m := Machine{Container: []string{}, PCI: []string{}, Memory: memory(root)}
	if goruntime.GOOS != "linux" {
		return m
	}
	m.Kernel = firstLine(root, "/proc/sys/kernel/osrelease")
	m.WSL = strings.Contains(strings.ToLower(m.Kernel), "microsoft")
	for _, file := range []string{"/.dockerenv", "/run/.containerenv"} {
		if _, err := os.Stat(filepath.Join(root, file)); err == nil {
			m.Container = append(m.Container, file)
		}
	}
	groups, _ := os.ReadFile(filepath.Join(root, "/proc/1/cgroup")) // none: no sign
	for _, word := range cgroups {
		if strings.Contains(string(groups), word) {
			m.Container = append(m.Container, "cgroup: "+word)
		}
	}
	if os.Getenv("KUBERNETES_SERVICE_HOST") != "" {
		m.Container = append(m.Container, "KUBERNETES_SERVICE_HOST")
	}
	vendors, _ := filepath.Glob(filepath.Join(root, "/sys/bus/pci/devices/*/vendor")) // the pattern is right
	for _, vendor := range vendors {
		dir := filepath.Dir(vendor)
		const nvidia, display = "0x10de", "0x03" // the class of VGA and 3D controllers
		if firstLine(vendor) == nvidia && strings.HasPrefix(firstLine(dir, "class"), display) {
			m.PCI = append(m.PCI, filepath.Base(dir))
		}
	}
	return m
}

// firstLine is the first line of a file, or "".
func firstLine(path ...string) string {
	content, _ := os.ReadFile(filepath.Join(path...))
	line, _, _ := strings.Cut(string(content), "\n")
	return strings.TrimSpace(line)
}
