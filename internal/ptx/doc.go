// Package ptx reads NVIDIA PTX, the text form of GPU kernels that clang, nvcc,
// NVRTC and Triton write, for ISA versions 6.0 to 9.0.
//
// [Parse] turns source into a [Module]. That has the signatures of kernels: names, parameters with
// offsets, launch bounds, and static shared memory. It has the variables of the module with their
// initial bytes, and function bodies as instructions whose register, label and symbol names are
// resolved. It knows the grammar and the scoping rules; what an instruction does is the business of
// the subpackage exec, which runs kernels on the CPU.
//
//	m, err := ptx.Parse(src)
//	if err != nil {
//		return err // *ptx.SyntaxError: line, column, token
//	}
//	for _, e := range m.Entries {
//		fmt.Println(e.Name, e.ParamBytes, e.MaxNTID)
//	}
//
// The reader is made for hostile input: it does not panic, it needs memory in
// proportion to the source, and nesting and source size are limited.
package ptx
