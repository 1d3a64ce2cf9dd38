package doctor

import (
	"fmt"
	goruntime "runtime"
	"runtime/debug"
	"strings"
)

// Build is which program this is.
type Build struct {
	Version  string `json:"version"`          // of the module, "(devel)" where Go recorded none
	Commit   string `json:"commit,omitempty"` // "" where Go recorded none
	Modified bool   `json:"modified"`         // the working tree differed from the commit
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

// ReadBuild reads what Go recorded in the binary.
func ReadBuild() Build {
	b := Build{Version: "(devel)", Go: goruntime.Version(), OS: goruntime.GOOS, Arch: goruntime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if info.Main.Version != "" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// String is the build on one line.
func (b Build) String() string {
	text := b.Version
	if b.Commit != "" {
		commit := b.Commit[:min(len(b.Commit), 12)]
		if b.Modified {
			commit += " and changes"
		}
		text += ", commit " + commit
	}
	return strings.Join([]string{text, b.Go, fmt.Sprintf("%s/%s", b.OS, b.Arch)}, ", ")
}
