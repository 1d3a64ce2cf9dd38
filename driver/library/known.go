package library

import (
	"path/filepath"
	"strings"
)

// Further are the libraries beyond the driver's own and NVRTC: those that the module libs opens, and those that
// programs open by themselves, and nvJitLink. smoke doctor lists them.
var Further = []Description{CUBLAS, cuBLASLt, CUFFT, CURAND, CUSOLVER, NCCL, NVJITLINK}

const onCPU = "the CPU has to compute"

// CUBLAS multiplies matrices. cuBLASLt of the same folder is a part of it.
var CUBLAS = Description{
	Name:     "cuBLAS",
	Purpose:  "multiply matrices",
	Without:  onCPU,
	Install:  "CUDA toolkit 11.4 or newer, the package libcublas of NVIDIA's repositories, or pip install nvidia-cublas",
	Variable: "PURECUDA_CUBLAS_PATH",
	Before:   func(candidate string) []string { return []string{cublasLtBeside(candidate)} },
	Property: "cublasGetProperty",
	CUDA:     major(0),
	Linux:    Names{Files: sonames("libcublas.so", "13", "12", "11"), Wheels: wheels("cublas")},
	Windows:  Names{Files: []string{"cublas64_13.dll", "cublas64_12.dll", "cublas64_11.dll"}, Wheels: windowsWheels("cublas")},
}

// cuBLASLt is the part of cuBLAS with epilogues.
var cuBLASLt = Description{
	Name:     "cuBLASLt",
	Purpose:  "multiply matrices",
	Without:  onCPU,
	Install:  CUBLAS.Install,
	Variable: "PURECUDA_CUBLASLT_PATH",
	Property: "cublasLtGetProperty",
	CUDA:     major(0),
	Linux:    Names{Files: sonames("libcublasLt.so", "13", "12", "11"), Wheels: wheels("cublas")},
	Windows:  Names{Files: []string{"cublasLt64_13.dll", "cublasLt64_12.dll", "cublasLt64_11.dll"}, Wheels: windowsWheels("cublas")},
}

// cublasLtBeside is the cuBLASLt that a file of cuBLAS asks for.
func cublasLtBeside(file string) string {
	folder, name := filepath.Split(file)
	return folder + strings.Replace(name, "cublas", "cublasLt", 1)
}

// CUFFT transforms.
var CUFFT = Description{
	Name:     "cuFFT",
	Purpose:  "transform signals",
	Without:  onCPU,
	Install:  "CUDA toolkit 11.0 or newer, the package libcufft of NVIDIA's repositories, or pip install nvidia-cufft",
	Variable: "PURECUDA_CUFFT_PATH",
	Before:   func(candidate string) []string { return beside(candidate, NVJITLINK) },
	Property: "cufftGetProperty",
	CUDA:     major(1),
	Linux:    Names{Files: sonames("libcufft.so", "12", "11", "10"), Wheels: wheels("cufft")},
	Windows:  Names{Files: []string{"cufft64_12.dll", "cufft64_11.dll", "cufft64_10.dll"}, Wheels: windowsWheels("cufft")},
}

// CURAND makes random numbers.
var CURAND = Description{
	Name:     "cuRAND",
	Purpose:  "make random numbers",
	Without:  onCPU,
	Install:  "CUDA toolkit 11.0 or newer, the package libcurand of NVIDIA's repositories, or pip install nvidia-curand",
	Variable: "PURECUDA_CURAND_PATH",
	Property: "curandGetProperty",
	CUDA:     func(v Version) int { return v[1] + 9 }, // 10.2 is of CUDA 11, 10.3 of 12, 10.4 of 13
	Linux:    Names{Files: []string{"libcurand.so.10"}, Wheels: wheels("curand")},
	Windows:  Names{Files: []string{"curand64_10.dll"}, Wheels: windowsWheels("curand")},
}

// CUSOLVER solves equations.
var CUSOLVER = Description{
	Name:     "cuSOLVER",
	Purpose:  "solve equations",
	Without:  onCPU,
	Install:  "CUDA toolkit 11.1 or newer, the package libcusolver of NVIDIA's repositories, or pip install nvidia-cusolver",
	Variable: "PURECUDA_CUSOLVER_PATH",
	Before:   func(candidate string) []string { return beside(candidate, NVJITLINK, cuSPARSE, cuBLASLt, CUBLAS) },
	Property: "cusolverGetProperty",
	CUDA: func(v Version) int {
		if v[0] >= 12 {
			return v[0] + 1
		}
		return 11 // 11 is of CUDA 11 and of 12
	},
	Linux:   Names{Files: sonames("libcusolver.so", "12", "11"), Wheels: wheels("cusolver")},
	Windows: Names{Files: []string{"cusolver64_12.dll", "cusolver64_11.dll"}, Wheels: windowsWheels("cusolver")},
}

// NCCL moves data between devices. The version of CUDA that it was built for it does not tell.
var NCCL = Description{
	Name:     "NCCL",
	Purpose:  "move data between devices",
	Without:  "NVIDIA has it for Linux",
	Install:  "the package libnccl2 of NVIDIA's repositories, or pip install nvidia-nccl-cu13",
	Variable: "PURECUDA_NCCL_PATH",
	Number:   "ncclGetVersion",
	Linux:    Names{Files: []string{"libnccl.so.2"}, Wheels: []string{"nvidia/nccl/lib"}},
}

// NVJITLINK links code. There is none before CUDA 12. Package nvrtc calls it. Who calls it by hand makes all calls of one link on one thread,
// between runtime.LockOSThread and UnlockOSThread of Go: it ends the process else.
var NVJITLINK = Description{
	Name:     "nvJitLink",
	Purpose:  "link LTO-IR",
	Without:  "code has to come linked",
	Install:  "CUDA toolkit 12.3 or newer, the package libnvjitlink of NVIDIA's repositories, or pip install nvidia-nvjitlink",
	Variable: "PURECUDA_NVJITLINK_PATH",
	Functions: []string{"nvJitLinkVersion", "nvJitLinkCreate", "nvJitLinkDestroy", "nvJitLinkAddData", "nvJitLinkComplete",
		"nvJitLinkGetLinkedCubinSize", "nvJitLinkGetLinkedCubin", "nvJitLinkGetLinkedPtxSize", "nvJitLinkGetLinkedPtx",
		"nvJitLinkGetErrorLogSize", "nvJitLinkGetErrorLog", "nvJitLinkGetInfoLogSize", "nvJitLinkGetInfoLog"},
	Oldest:  Since{12, 3},
	Pair:    "nvJitLinkVersion",
	CUDA:    major(0),
	Linux:   Names{Files: sonames("libnvJitLink.so", "13", "12"), Wheels: wheels("nvjitlink")},
	Windows: Names{Files: []string{"nvJitLink_130_0.dll", "nvJitLink_120_0.dll"}, Wheels: windowsWheels("nvjitlink")},
	Statuses: map[Status]string{
		1: "NVJITLINK_ERROR_UNRECOGNIZED_OPTION", 2: "NVJITLINK_ERROR_MISSING_ARCH", 3: "NVJITLINK_ERROR_INVALID_INPUT",
		4: "NVJITLINK_ERROR_PTX_COMPILE", 5: "NVJITLINK_ERROR_NVVM_COMPILE", 6: "NVJITLINK_ERROR_INTERNAL",
		7: "NVJITLINK_ERROR_THREADPOOL", 8: "NVJITLINK_ERROR_UNRECOGNIZED_INPUT", 9: "NVJITLINK_ERROR_FINALIZE",
		10: "NVJITLINK_ERROR_NULL_INPUT", 11: "NVJITLINK_ERROR_INCOMPATIBLE_OPTIONS", 12: "NVJITLINK_ERROR_INCORRECT_INPUT_TYPE",
		13: "NVJITLINK_ERROR_ARCH_MISMATCH", 14: "NVJITLINK_ERROR_OUTDATED_LIBRARY", 15: "NVJITLINK_ERROR_MISSING_FATBIN",
		16: "NVJITLINK_ERROR_UNRECOGNIZED_ARCH", 17: "NVJITLINK_ERROR_UNSUPPORTED_ARCH", 18: "NVJITLINK_ERROR_LTO_NOT_ENABLED",
	},
}

// major is the CUDA version of a library whose major version is so much less.
func major(less int) func(Version) int { return func(v Version) int { return v[0] + less } }

func sonames(stem string, versions ...string) (files []string) {
	for _, v := range versions {
		files = append(files, stem+"."+v)
	}
	return files
}

func wheels(name string) []string { return []string{"nvidia/cu13/lib", "nvidia/" + name + "/lib"} }

func windowsWheels(name string) []string {
	return []string{`nvidia\cu13\bin\x86_64`, `nvidia\` + name + `\bin`}
}
