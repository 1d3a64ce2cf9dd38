package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// goTypes are the Go types of C's own types, and of what only the prototypes name.
var goTypes = map[string][]string{
	"int": {"int32", "Version"}, "unsigned int": {"uint32"}, "size_t": {"uint64"}, "unsigned long long": {"uint64"}, "float": {"float32"},
	"cuuint32_t": {"uint32"}, "cuuint64_t": {"uint64"}, "unsigned char": {"uint8"}, "unsigned short": {"uint16"},
	"CUhostFn": {"uintptr"}, "CUoccupancyB2DSize": {"uintptr"}, "CUdeviceptr": {"DevicePtr"}, "CUuuid": {"UUID"},
	"signed char": {"int8"}, "long long": {"int64"}, "int64_t": {"int64"}, "uint64_t": {"uint64"}, "double": {"float64"},
	"CUtensorMap": {"TensorMap"}, "CUipcMemHandle": {"IpcMemHandle"}, "CUipcEventHandle": {"IpcEventHandle"},
	"CUDA_KERNEL_NODE_PARAMS": {"kernelNodeParams"}, "CUcheckpointCheckpointArgs": nil, "CUcheckpointUnlockArgs": nil,
	"CUgraphEdgeData": {"byte"},
}

// check compares the Go types of a function of the driver with its prototype, and looks for what was forgotten.
func (e *entry) check(known known, enums []*enum) error {
	types := maps.Clone(goTypes)
	for c, typ := range known.goType {
		if types[c] == nil && typ != "" {
			types[c] = []string{typ}
		}
	}
	if err := e.compare(types, enums); err != nil {
		return err
	}
	names := func(a arg) bool { return !a.out && (a.typ == "Stream" || a.typ == "Event") }
	if slices.ContainsFunc(e.args, names) && !e.needsContext && !slices.ContainsFunc(e.rules, func(rule string) bool {
		return rule == "hot" || rule == "work" || rule == "cold"
	}) {
		return fmt.Errorf("it names a stream or an event: say whether it needs a context (ctx), or is hot, work or cold")
	}
	return nil
}

// compare compares the Go types of a function with its prototype. types has Go's types by C's.
func (e *entry) compare(types map[string][]string, enums []*enum) error {
	var c []string
	for _, param := range strings.Split(e.c, ", ") {
		c = append(c, strings.TrimPrefix(param, "const "))
	}
	for _, a := range e.args {
		param := c[0]
		c = c[1:]
		if a.count != "" {
			if !slices.Contains(types[c[0]], a.count) {
				return fmt.Errorf("the list %s is counted by %s, and C has %s", a.name, a.count, c[0])
			}
			c = c[1:]
		}
		base, pointer := strings.CutSuffix(param, " *")
		address := a.out || a.ref || a.null || a.count != "" || strings.HasPrefix(a.typ, "*")
		switch {
		case strings.HasPrefix(base, "void") || strings.HasSuffix(base, "*") || strings.HasPrefix(base, "char"):
			if !strings.Contains(param, "*") || !address && !slices.Contains([]string{"string", "unsafe.Pointer", "uintptr", "DevicePtr", "driver.DevicePtr"}, a.typ) {
				return fmt.Errorf("%s is %s, and C has %s", a.name, a.typ, param)
			}
			continue
		case pointer && (a.typ == "unsafe.Pointer" || a.typ == "driver.DevicePtr"):
			continue
		case pointer != address:
			return fmt.Errorf("%s is %s, and C has %s: see out, ref, list and null", a.name, a.typ, param)
		}
		want, listed := types[base]
		for _, enum := range enums {
			if enum.c == base {
				want, listed = []string{enum.typ}, true
			}
		}
		if !listed {
			return fmt.Errorf("no Go type is known for %s: see types.go, structs.go and constants.txt", base)
		}
		if !a.null && !slices.Contains(want, strings.TrimPrefix(a.typ, "*")) {
			return fmt.Errorf("%s is %s, and C has %s, which is %s", a.name, a.typ, param, strings.Join(want, " or "))
		}
	}
	return nil
}
