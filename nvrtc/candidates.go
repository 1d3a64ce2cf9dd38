package nvrtc

import "github.com/purecuda/purecuda/driver/library"

// PathVariable names the environment variable that replaces the candidates of [Open] by
// one file.
const PathVariable = "PURECUDA_NVRTC_PATH"

// description says where NVRTC is found. All versions from 11.2 to 11.8 have one name.
var description = library.Description{
	Name:     "NVRTC",
	Purpose:  "compile CUDA C++",
	Without:  "kernels have to come as PTX or machine code",
	Install:  "CUDA toolkit 11.2 or newer, the package cuda-nvrtc of NVIDIA's repositories, or pip install nvidia-cuda-nvrtc",
	Variable: PathVariable,
	Linux: library.Names{
		Files:  []string{"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2"},
		Wheels: []string{"nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"},
	},
	Windows: library.Names{
		Files:  []string{"nvrtc64_130_0.dll", "nvrtc64_120_0.dll", "nvrtc64_112_0.dll"},
		Wheels: []string{`nvidia\cu13\bin\x86_64`, `nvidia\cuda_nvrtc\bin`},
	},
	Oldest: library.Since{11, 2},
}

// Candidates lists where Open looks for NVRTC, in order: the file that PURECUDA_NVRTC_PATH names
// and nothing else if it is set. Otherwise it is an NVRTC that is in the process already, then the
// toolkit of CUDA_PATH and CUDA_HOME, then what the system's loader knows. Last come the toolkits
// in their usual folders, and the active Python environment (VIRTUAL_ENV, CONDA_PREFIX). In each
// place the newest comes first. It is empty where CUDA has no NVRTC. It reads directories.
func Candidates() []string { return description.Candidates() }
