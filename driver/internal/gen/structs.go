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
	size   int64
	fields []field
}

type field struct {
	c      string
	offset int64
}

// parseStructs finds the types with the layout of C: their first field is a structs.HostLayout,
// whose tag names the structure. The tags of the others name C's fields.
func parseStructs(files ...string) ([]structure, error) {
	set := token.NewFileSet()
	var parsed []*ast.File
	for _, file := range files {
		f, err := parser.ParseFile(set, file, nil, 0)
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, f)
	}
	config := types.Config{Importer: importer.ForCompiler(set, "source", nil), Sizes: types.SizesFor("gc", "amd64")}
	pkg, err := config.Check("driver", set, parsed, nil)
	if err != nil {
		return nil, err
	}
	var all []structure
	for _, name := range pkg.Scope().Names() {
		typ, ok := pkg.Scope().Lookup(name).Type().Underlying().(*types.Struct)
		if !ok || typ.NumFields() == 0 || typ.Field(0).Type().String() != "structs.HostLayout" {
			continue
		}
		s := structure{c: reflect.StructTag(typ.Tag(0)).Get("c"), size: config.Sizes.Sizeof(typ)}
		if s.c == "" {
			return nil, fmt.Errorf("type %s: the tag of its structs.HostLayout must name C's structure: `c:\"CUname\"`", name)
		}
		var fields []*types.Var
		for f := range typ.Fields() {
			fields = append(fields, f)
		}
		for i, offset := range config.Sizes.Offsetsof(fields) {
			c := reflect.StructTag(typ.Tag(i)).Get("c")
			switch {
			case i == 0 || fields[i].Name() == "_":
				continue
			case c == "":
				return nil, fmt.Errorf("type %s: the tag of %s must name C's field: `c:\"name\"`", name, fields[i].Name())
			}
			s.fields = append(s.fields, field{c, offset})
		}
		all = append(all, s)
	}
	return all, nil
}
