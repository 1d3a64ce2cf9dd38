package main

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"reflect"
	"strings"
)

// structure is a structure of C, as our type has it.
type structure struct {
	c      string
	since  string // CUDA version, "" for any
	size   int64
	fields []field
}

// known are the types of package driver.
type known struct {
	structures []structure
	handles    []string
	goType     map[string]string // by the type of C
}

type field struct {
	c      string
	since  string // CUDA version, "" for the structure's
	offset int64
}

// parseTypes finds the types with the layout of C: their first field is a structs.HostLayout,
// whose tag names the structure. The tags of the others name C's fields. It also finds handles, of
// which there is none with the value 0: the exported integers as wide as an address. Files have a
// text that is not written yet, or nil.
func parseTypes(files map[string][]byte) (all known, err error) {
	set := token.NewFileSet()
	all.goType = map[string]string{}
	var parsed []*ast.File
	for file, text := range files {
		var src any
		if text != nil {
			src = text
		}
		f, err := parser.ParseFile(set, file, src, parser.ParseComments)
		if err != nil {
			return all, err
		}
		parsed = append(parsed, f)
		ast.Inspect(f, func(n ast.Node) bool { // `Stream uintptr // CUstream; ...`
			if spec, ok := n.(*ast.TypeSpec); ok && spec.Comment != nil {
				c, _, _ := strings.Cut(strings.TrimLeft(spec.Comment.Text(), "/ "), ";")
				all.goType[strings.Trim(strings.FieldsFunc(c, func(r rune) bool { return r == ' ' || r == ',' || r == ':' })[0], "\n")] = spec.Name.Name
			}
			return true
		})
	}
	config := types.Config{Importer: importer.ForCompiler(set, "source", nil), Sizes: types.SizesFor("gc", "amd64")}
	pkg, err := config.Check("driver", set, parsed, nil)
	if err != nil {
		return all, err
	}
	for _, name := range pkg.Scope().Names() {
		if basic, ok := pkg.Scope().Lookup(name).Type().Underlying().(*types.Basic); ok && exported(name) &&
			(basic.Kind() == types.Uintptr || basic.Kind() == types.Uint64) {
			all.handles = append(all.handles, name)
		}
		typ, ok := pkg.Scope().Lookup(name).Type().Underlying().(*types.Struct)
		if !ok || typ.NumFields() == 0 || typ.Field(0).Type().String() != "structs.HostLayout" {
			continue
		}
		tag := reflect.StructTag(typ.Tag(0))
		s := structure{c: tag.Get("c"), since: tag.Get("since"), size: config.Sizes.Sizeof(typ)}
		if s.c == "" {
			return all, fmt.Errorf("type %s: the tag of its structs.HostLayout must name C's structure: `c:\"CUname\"`", name)
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
				return all, fmt.Errorf("type %s: the tag of %s must name C's field: `c:\"name\"`", name, fields[i].Name())
			}
			s.fields = append(s.fields, field{c, tag.Get("since"), offset})
		}
		all.goType[s.c] = name
		all.structures = append(all.structures, s)
	}
	return all, nil
}
