// Package transformer asks for what a transformer needs beside products of matrices.
package transformer

//purecuda:instantiate kernels.LayerNorm[float32]
//purecuda:instantiate kernels.LayerNorm[gpu.Float16]
//purecuda:instantiate kernels.LayerNorm[gpu.BFloat16]
//purecuda:instantiate kernels.RMSNorm[float32]
//purecuda:instantiate kernels.RMSNorm[gpu.Float16]
//purecuda:instantiate kernels.RMSNorm[gpu.BFloat16]
//purecuda:instantiate kernels.Softmax[float32]
//purecuda:instantiate kernels.Softmax[gpu.Float16]
//purecuda:instantiate kernels.Softmax[gpu.BFloat16]
//purecuda:instantiate kernels.Decode[gpu.Float16]
//purecuda:instantiate kernels.Decode[gpu.BFloat16]
