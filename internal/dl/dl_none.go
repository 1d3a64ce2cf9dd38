//go:build !(linux && (amd64 || arm64 || loong64 || riscv64)) && !(windows && (amd64 || arm64))

package dl

func mapped(string) uintptr { return 0 }

func open(string) (uintptr, error) { return 0, ErrNoLoader }

func symbol(uintptr, string) uintptr { return 0 }
