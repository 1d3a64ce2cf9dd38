package compile

import (
	"maps"
	"slices"
	"strings"
)

// held is what an instruction has stored in a local array.
type held struct {
	array string // empty where it is not known
	typ   string
	reg   string
}

// forward gives a load of a local array the register that was stored there before, in the same straight code.
func forward(code []ins) []ins {
	defs := defsOf(code)
	arrays := map[string]string{} // that a register points into
	for _, i := range code {
		if len(i.dst) != 1 || defs[i.dst[0]] != 1 || i.guard != "" {
			continue
		}
		from, _, _ := strings.Cut(i.text, ", ")
		switch {
		case i.op == "mov.u64" && strings.HasPrefix(i.text, "local_"):
			arrays[i.dst[0]] = i.text
		case i.op == "add.s64" && arrays[from] != "":
			arrays[i.dst[0]] = arrays[from]
		}
	}
	known := map[string]held{} // by address
	for j := range code {
		i := &code[j]
		if i.label != "" || i.call != nil {
			clear(known)
			continue
		}
		at, value, _ := strings.Cut(i.text, "], ")
		base, _, _ := strings.Cut(strings.Trim(at, "[]"), "+")
		typ := i.op[strings.LastIndexByte(i.op, '.')+1:]
		switch {
		case strings.HasPrefix(i.op, "st.local"):
			array := arrays[base]
			if !isReg(base) {
				array = base
			}
			maps.DeleteFunc(known, func(_ string, h held) bool { return array == "" || h.array == "" || h.array == array })
			if i.guard == "" && i.op == "st.local."+typ && isReg(value) && slices.Contains([]string{"s32", "u32", "f32", "s64", "u64", "f64"}, typ) {
				known[at] = held{array, typ, value}
			}
			continue
		case i.op == "ld.local."+typ && i.guard == "":
			if h, ok := known[strings.TrimSuffix(i.text, "]")]; ok && h.typ == typ {
				i.op, i.text, i.src = "mov."+map[byte]string{'f': "f", 's': "b", 'u': "b"}[typ[0]]+typ[1:], h.reg, []string{h.reg}
			}
		}
		for _, r := range i.dst {
			maps.DeleteFunc(known, func(at string, h held) bool { return h.reg == r || slices.Contains(regsIn(at), r) })
		}
	}
	return code
}
