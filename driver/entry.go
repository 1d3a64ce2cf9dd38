package driver

// Entry is a function of the driver API that this package calls.
type Entry struct {
	// Name is the name without a version suffix, "cuMemAlloc".
	Name string
	// Required says that a driver without it is not usable at all.
	Required bool
	// NeedsContext says that the call fails on a thread without a current context.
	NeedsContext bool

	variants []variant
}

// variant is one version of a function, by its exact name in the library. All
// variants of an entry have the same signature.
type variant struct {
	version Version
	symbol  string
}

// Since is the CUDA version that brought the function.
func (e Entry) Since() Version {
	if len(e.variants) == 0 {
		return 0
	}
	return e.variants[len(e.variants)-1].version
}

// Entries lists all functions, in the order of the API interface.
func Entries() []Entry { return append([]Entry(nil), entries[:]...) }

// entryByName finds a function by its name without a version suffix.
func entryByName(name string) (Entry, bool) {
	for _, e := range entries {
		if e.Name == name {
			return e, true
		}
	}
	return Entry{}, false
}
