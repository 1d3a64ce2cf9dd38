package main

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"reflect"
)

// structure is a structure of C, as our type has it.
type structure struct {
	c      string
	since  string // CUDA version, "" for any
	size   int64
	fields []field
}

type field struct {
	c      string
	since  string // CUDA version, "" for that of the structure
	offset int64
}

// parseTypes finds the types with the layout of C: their first field is a structs.HostLayout,
// whose tag names the structure. The tags of the others name C's fields. It also finds handles, of
// which there is none with the value 0: the exported integers as wide as an address.
func parseTypes(files ...string) (all []structure, handles []string, err error) {
	set := token.NewFileSet()
	var parsed []*ast.File
	for _, file := range files {
		f, err := parser.ParseFile(set, file, nil, 0)
		if err != nil {
			return nil, nil, err
		}
		parsed = append(parsed, f)
	}
	config := types.Config{Importer: importer.ForCompiler(set, "source", nil), Sizes: types.SizesFor("gc", "amd64")}
	pkg, err := config.Check("driver", set, parsed, nil)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range pkg.Scope().Names() {
		if basic, ok := pkg.Scope().Lookup(name).Type().Underlying().(*types.Basic); ok && exported(name) &&
			(basic.Kind() == types.Uintptr || basic.Kind() == types.Uint64) {
			handles = append(handles, name)
		}
		typ, ok := pkg.Scope().Lookup(name).Type().Underlying().(*types.Struct)
		if !ok || typ.NumFields() == 0 || typ.Field(0).Type().String() != "structs.HostLayout" {
			continue
		}
		tag := reflect.StructTag(typ.Tag(0))
		s := structure{c: tag.Get("c"), since: tag.Get("since"), size: config.Sizes.Sizeof(typ)}
		if s.c == "" {
			return nil, nil, fmt.Errorf("type %s: the tag of its structs.HostLayout must name C's structure: `c:\"CUname\"`", name)
		}
		var fields []*types.Var
		for f := range typ.Fields() {
			fields = append(fields, f)
		}
		for i, offset := range config.Sizes.Offsetsof(fields) {
			tag := reflect.StructTag(typ.Tag(i))
			c := tag.Get("c")
			switch {
			case i == 0 || fields[i].Name() == "_":
				continue
			case c == "":
				return nil, nil, fmt.Errorf("type %s: the tag of %s must name C's field: `c:\"name\"`", name, fields[i].Name())
			}
			s.fields = append(s.fields, field{c, tag.Get("since"), offset})
		}
		all = append(all, s)
	}
	return all, handles, nil
}
