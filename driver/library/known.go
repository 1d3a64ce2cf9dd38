package library

import (
	"path/filepath"
	"strings"
)

// Further are the libraries beyond the driver's own and NVRTC: those that the module libs opens, and those that
// programs open by themselves. smoke doctor lists them.
var Further = []Description{CUBLAS, cuBLASLt, CUFFT, CURAND, CUSOLVER, NCCL}

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
	Before:   func(candidate string) []string { return beside(candidate, nvJitLink) },
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
	Before:   func(candidate string) []string { return beside(candidate, nvJitLink, cuSPARSE, cuBLASLt, CUBLAS) },
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
