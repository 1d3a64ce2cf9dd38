package compile

import (
	"slices"
	"strings"
)

// clean drops what has no use: moves to registers that are not read again, jumps to the next instruction. It works in place.
func clean(code []ins) []ins {
	for again := true; again; {
		again = false
		// unreachable code after a jump
		n := len(code)
		dead := false
		code = slices.DeleteFunc(code, func(i ins) bool {
			dead = dead && i.label == ""
			drop := dead
			dead = dead || (i.op == "bra" || i.op == "ret" || i.op == "exit" || i.op == "trap") && i.guard == "" && i.label == ""
			return drop
		})
		code = deadMoves(code)
		again = len(code) != n
		// jumps
		out := code[:0]
		for j := 0; j < len(code); j++ {
			i := code[j]
			follows := func(from int, l string) bool {
				for ; from < len(code) && code[from].label != ""; from++ {
					if code[from].label == l {
						return true
					}
				}
				return false
			}
			if i.op == "bra" && i.label == "" {
				if follows(j+1, i.target) {
					again = true
					continue
				}
				if i.guard != "" && j+1 < len(code) && code[j+1].op == "bra" && code[j+1].guard == "" && code[j+1].label == "" && follows(j+2, i.target) {
					i.target, i.text, i.guardNot = code[j+1].target, code[j+1].text, !i.guardNot
					j++
					again = true
				}
			}
			out = append(out, i)
		}
		code = out
		used := map[string]bool{}
		for j := range code {
			used[code[j].target] = true
		}
		n = len(code)
		code = slices.DeleteFunc(code, func(i ins) bool { return i.label != "" && !used[i.label] })
		again = again || len(code) != n
	}
	idleVotes(code)
	return code
}

// idleVotes leaves of a vote whose result nobody reads that the lanes wait for each other. ptxas crashes where it finds the predicate of such
// a vote to be false (CUDA 11.8). A driver 580.159 crashed while such kernels were loaded.
func idleVotes(code []ins) {
	vote := func(i ins) bool { return strings.HasPrefix(i.op, "vote.sync") }
	if !slices.ContainsFunc(code, vote) {
		return
	}
	read := map[string]bool{}
	for _, i := range code { // deadMoves has left no reader without a use
		read[i.guard] = true
		for _, r := range i.src {
			read[r] = true
		}
	}
	for n, i := range code {
		if vote(i) && !read[i.dst[0]] {
			_, lanes, _ := strings.Cut(i.text, ", ")
			code[n] = ins{op: "bar.warp.sync", src: regsIn(lanes), text: lanes, guard: i.guard, guardNot: i.guardNot, side: true, pos: i.pos}
		}
	}
}

func deadMoves(code []ins) []ins {
	id := make(map[string]int, len(code))
	num := func(r string) int {
		n, ok := id[r]
		if !ok {
			n = len(id)
			id[r] = n
		}
		return n
	}
	for _, i := range code {
		for _, r := range i.dst {
			num(r)
		}
		for _, r := range i.src {
			num(r)
		}
		if i.guard != "" {
			num(i.guard)
		}
	}
	w := len(id)/64 + 1
	at := map[string][]uint64{}
	for _, i := range code {
		if i.label != "" {
			at[i.label] = make([]uint64, w)
		}
	}
	live := make([]uint64, w)
	sweep := func(mark func(int)) (changed bool) {
		clear(live)
		for j := len(code) - 1; j >= 0; j-- {
			i := &code[j]
			if i.label != "" {
				l := at[i.label]
				for x := range l {
					if l[x]|live[x] != l[x] {
						l[x] |= live[x]
						changed = true
					}
				}
				continue
			}
			switch i.op {
			case "bra":
				if i.guard == "" {
					copy(live, at[i.target])
				} else {
					for x, y := range at[i.target] {
						live[x] |= y
					}
				}
			case "ret", "exit", "trap":
				if i.guard == "" {
					clear(live)
				}
			}
			if !i.side && i.guard == "" {
				any := false
				for _, r := range i.dst {
					n := id[r]
					any = any || live[n/64]>>(n%64)&1 != 0
				}
				if !any {
					if mark != nil {
						mark(j)
					}
					continue
				}
			}
			if i.guard == "" { // else the old value may stay
				for _, r := range i.dst {
					n := id[r]
					live[n/64] &^= 1 << (n % 64)
				}
			}
			for _, r := range i.src {
				n := id[r]
				live[n/64] |= 1 << (n % 64)
			}
			if i.guard != "" {
				n := id[i.guard]
				live[n/64] |= 1 << (n % 64)
			}
		}
		return
	}
	for sweep(nil) {
	}
	drop := make([]bool, len(code))
	sweep(func(j int) { drop[j] = true })
	j := -1
	return slices.DeleteFunc(code, func(ins) bool { j++; return drop[j] })
}
