// Package across asks for the kernels of calls over several devices.
package across

//purecuda:instantiate kernels.SortAcross[uint32]
//purecuda:instantiate kernels.SortAcross[float32]
//purecuda:instantiate kernels.SortAcross[int64]
