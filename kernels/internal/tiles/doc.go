// Package tiles has the kernels that work on tiles: scan, select, reduce and radix sort. Each is generic, and the catalogue
// has instances of some. A program makes its own with a line //purecuda:instantiate.
package tiles
