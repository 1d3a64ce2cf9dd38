package doctor

// SchemaVersion of the JSON document. New members do not change it.
const SchemaVersion = 1

// Report is the JSON document; the doc comment of the command says what the members mean.
type Report struct {
	SchemaVersion int         `json:"schema_version"`
	Build         Build       `json:"build"`
	Process       Process     `json:"process"`
	Policy        Policy      `json:"policy"`
	Environment   []Variable  `json:"environment"`
	Machine       Machine     `json:"machine"`
	Files         []File      `json:"device_files"`
	Driver        Driver      `json:"driver"`
	NVRTC         NVRTC       `json:"nvrtc"`
	Health        *Health     `json:"health,omitempty"`    // nil if it was not asked for
	Libraries     []Installed `json:"libraries,omitempty"` // nil if they were not asked for
	Devices       []Device    `json:"devices"`
	Compiling     []Compiling `json:"compiling"`
	Cache         Cache       `json:"cache"`
	Problems      []Problem   `json:"problems"`
}

// Problem is what is wrong, and what to do about it.
type Problem struct {
	About   string `json:"about"` // the section of the report
	Problem string `json:"problem"`
	Do      string `json:"do"`
}

// Outcome is what looking for something has led to.
type Outcome string

const (
	Available Outcome = "available"
	Absent    Outcome = "absent" // it is not there
	Fault     Outcome = "fault"  // it is there, and broken
)

// Failure is why something cannot be used.
type Failure struct {
	Kind   string `json:"kind"` // an error kind of package driver
	Detail string `json:"detail"`
	Code   int    `json:"code,omitempty"` // the CUresult, where a call of the driver failed
}

// Candidate is a library that programs look for.
type Candidate struct {
	Name  string `json:"name"` // as it is handed to the loader
	Taken bool   `json:"taken"`
	// Reason is why it was not taken, in the loader's words.
	Reason string `json:"reason,omitempty"`
	// Files are files that the name may mean.
	Files []LibraryFile `json:"files,omitempty"`
}

// LibraryFile is a file that a candidate may mean.
type LibraryFile struct {
	Path string `json:"path"`
	// Wrong is what makes that it cannot be loaded, or "".
	Wrong string `json:"wrong,omitempty"`
}

// Driver is what the probe of the driver found.
type Driver struct {
	Outcome    Outcome     `json:"outcome"`
	Failure    *Failure    `json:"failure,omitempty"`
	Candidates []Candidate `json:"candidates"`
	Taken      string      `json:"taken,omitempty"`   // the candidate
	File       string      `json:"file,omitempty"`    // with all links resolved
	Release    string      `json:"release,omitempty"` // of the file, "580.65.06"
	CUDA       string      `json:"cuda,omitempty"`    // the newest version that it supports, "13.0"
	Version    int         `json:"cuda_version,omitempty"`
	Missing    []string    `json:"missing,omitempty"` // functions, each with the version that brings it
	// KernelRelease is the version of the kernel's part of the driver.
	KernelRelease string `json:"kernel_release,omitempty"`
	// Ended is how the probe ended before it was done, "was ended by SIGSEGV ...", or "".
	Ended string `json:"ended,omitempty"`
}

// NVRTC is what the probe of NVRTC found.
type NVRTC struct {
	Outcome    Outcome     `json:"outcome"`
	Failure    *Failure    `json:"failure,omitempty"`
	Candidates []Candidate `json:"candidates"`
	Taken      string      `json:"taken,omitempty"`
	File       string      `json:"file,omitempty"`
	CUDA       string      `json:"cuda,omitempty"` // its version
	Version    int         `json:"cuda_version,omitempty"`
	Archs      []int       `json:"architectures,omitempty"` // 90 for compute capability 9.0
	PTX        string      `json:"ptx,omitempty"`           // the version of PTX that it writes
	Missing    []string    `json:"missing,omitempty"`
	Ended      string      `json:"ended,omitempty"`
}

// Device is a GPU.
type Device struct {
	Ordinal           int    `json:"ordinal"`
	Name              string `json:"name"`
	UUID              string `json:"uuid,omitempty"`
	PCIBusID          string `json:"pci_bus_id,omitempty"`
	ComputeCapability string `json:"compute_capability,omitempty"`
	SMs               int    `json:"sms,omitempty"`
	TotalBytes        uint64 `json:"total_bytes,omitempty"`
	FreeBytes         uint64 `json:"free_bytes,omitempty"`
	MIG               bool   `json:"mig,omitempty"`
	// Facts are what programs are tuned by. They are not there where the device does not answer.
	Facts *Facts `json:"facts,omitempty"`
	// Usable says that a context was opened and a kernel computed what it should.
	Usable bool   `json:"usable"`
	Reason string `json:"reason,omitempty"` // why it is not usable
	Code   int    `json:"code,omitempty"`   // the CUresult, where a call of the driver failed
}

// Facts are what a device has.
type Facts struct {
	WarpSize        int      `json:"warp_size"`
	RegistersPerSM  int      `json:"registers_per_sm"`
	MaxBlocksPerSM  int      `json:"max_blocks_per_sm,omitempty"`
	MaxThreadsPerSM int      `json:"max_threads_per_sm"`
	SharedPerBlock  int      `json:"shared_bytes_per_block"` // when a kernel asks for it
	L2Bytes         int      `json:"l2_bytes"`
	MemoryBusBits   int      `json:"memory_bus_bits"`
	ComputeMode     string   `json:"compute_mode"`
	Features        []string `json:"features"`
	Links           []int    `json:"links,omitempty"` // ordinals of the devices that it reaches directly
}

// Compiling is what a program that is compiled for a device with NVRTC becomes.
type Compiling struct {
	Device int    `json:"device"`
	Kind   string `json:"kind,omitempty"`   // "cubin", "PTX"
	Target string `json:"target,omitempty"` // "sm_90", "compute_90"
	Reason string `json:"reason,omitempty"` // why it is nothing, or may not load
}
