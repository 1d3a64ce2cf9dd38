package main

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"
)

// judgement is what a person has read of a module that the texts in the usual places do not
// say. It holds for one version.
type judgement struct {
	version string
	texts   []string // the files that hold, in place of those in the usual places
	licence string   // of these
	fonts   string   // the licence of the fonts that are built in, and
	text    string   // its text, which the module does not have
	why     string   // for the page
}

//go:embed texts/OFL-1.1.txt
var openFontLicense string

var judged = map[string]judgement{
	"github.com/golang/freetype": {
		version: "v0.0.0-20170609003504-e2365dfdc4a0",
		texts:   []string{"licenses/ftl.txt"}, licence: "FTL",
		why: "The module offers the FreeType License or the GPL. The first is chosen, which is like BSD and requires a credit: " +
			"This software is based in part on the work of the FreeType Team (https://freetype.org).",
	},
	"github.com/go-analyze/charts": {
		version: "v0.6.0",
		fonts:   "OFL-1.1", text: openFontLicense,
		why: "The fonts Noto Sans (Copyright 2015 Google Inc., and 2022 The Noto Project Authors) and Roboto (Copyright 2011 " +
			"The Roboto Project Authors) are built in. They are under the SIL Open Font License 1.1, which has no conditions for drawings.",
	},
}

// font matches fonts that are built in: they have a licence of their own.
var font = regexp.MustCompile(`(?i)\.(ttf|otf|ttc|woff2?)(\.gz)?$`)

// judge returns what was read of a module, and an error if that was another version of it, or
// if the module has fonts that nobody has read about.
func (m *module) judge() (j judgement, err error) {
	j, found := judged[m.Path]
	if found && j.version != m.Version {
		return j, fmt.Errorf("%s %s: what tools/licences/judged.go says was read at %s: read it again", m.Path, m.Version, j.version)
	}
	if fonts := slices.DeleteFunc(slices.Clone(m.embedded), func(f string) bool { return !font.MatchString(f) }); len(fonts) > 0 && j.fonts == "" {
		return j, fmt.Errorf("%s %s: fonts are built in, and tools/licences/judged.go does not know their licence: %s", m.Path, m.Version, fonts)
	}
	return j, nil
}
