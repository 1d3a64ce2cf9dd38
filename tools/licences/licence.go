package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/licensecheck"
)

// accepted are the licences, by their SPDX names, of what may be linked.
var accepted = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MPL-2.0"}

func acceptedText() string {
	last := len(accepted) - 1
	return strings.Join(accepted[:last], ", ") + " and " + accepted[last]
}

// known is the part of a file, in per cent of its words, that must be texts of licences.
const known = 75

// licenceFile matches files that say what one may do, and noticeFile those that go with them.
var (
	licenceFile = regexp.MustCompile(`(?i)^(licen[sc]e|copying|unlicense)`)
	noticeFile  = regexp.MustCompile(`(?i)^notice`)
	font        = regexp.MustCompile(`(?i)\.(ttf|otf|ttc|woff2?)(\.gz)?$`)
	program     = regexp.MustCompile(`(?i)\.(go|s|c|h)$`)
)

// file is a text that comes with a module.
type file struct{ name, text string }

// licence returns the names of the licences of a module, and its texts. Fonts that are built in have a licence of their own, and
// no file that this looks at may say so: they are refused.
func (m *module) licence() (names string, texts []file, err error) {
	if i := slices.IndexFunc(m.embedded, font.MatchString); i >= 0 {
		return "", nil, fmt.Errorf("%s %s: a font is built in, whose licence a person has to read: %s", m.Path, m.Version, m.embedded[i])
	}
	if texts, err = m.files(); err != nil {
		return "", nil, err
	}
	var ids []string
	for _, f := range texts {
		if noticeFile.MatchString(filepath.Base(f.name)) {
			continue
		}
		of, err := identify(f.text)
		if err != nil {
			return "", nil, fmt.Errorf("%s %s: %s: %w", m.Path, m.Version, f.name, err)
		}
		ids = append(ids, of...)
	}
	if len(ids) == 0 {
		return "", nil, fmt.Errorf("%s %s: no file says what its licence is", m.Path, m.Version)
	}
	slices.Sort(ids)
	return strings.Join(slices.Compact(ids), ", "), texts, nil
}

// files are the texts in the folders of the packages that are linked, and in those above
// them: parts of a module can have a licence of their own.
func (m *module) files() (found []file, err error) {
	folders := map[string]bool{}
	for folder := range m.folders {
		for ; strings.HasPrefix(folder, m.Dir) && !folders[folder]; folder = filepath.Dir(folder) {
			folders[folder] = true
			entries, err := os.ReadDir(folder)
			if err != nil {
				return nil, err
			}
			for _, e := range entries {
				is := licenceFile.MatchString(e.Name()) || noticeFile.MatchString(e.Name())
				if !is || e.IsDir() || program.MatchString(e.Name()) {
					continue
				}
				f, err := m.file(filepath.Join(folder, e.Name()))
				if err != nil {
					return nil, err
				}
				found = append(found, f)
			}
		}
	}
	slices.SortFunc(found, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return found, nil
}

func (m *module) file(path string) (file, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return file{}, err
	}
	name, err := filepath.Rel(m.Dir, path)
	return file{name, normalize(string(text))}, err
}

// identify returns the licences of a text, and an error where one is not accepted.
func identify(text string) (ids []string, err error) {
	coverage := licensecheck.Scan([]byte(text))
	if coverage.Percent < known {
		return nil, fmt.Errorf("%.0f%% of it is a known licence", coverage.Percent)
	}
	for _, match := range coverage.Match {
		if !slices.Contains(accepted, match.ID) {
			err = errors.Join(err, fmt.Errorf("the licence %s is not one of those that are accepted: %s", match.ID, acceptedText()))
		}
		ids = append(ids, match.ID)
	}
	return ids, err
}

// normalize removes what differs from one copy of a text to the next: the ends of lines, and
// the characters of Latin-1.
func normalize(text string) string {
	if !utf8.ValidString(text) {
		runes := make([]rune, len(text))
		for i := range len(text) {
			runes[i] = rune(text[i])
		}
		text = string(runes)
	}
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " \t\f")
	}
	return strings.Trim(strings.Join(lines, "\n"), "\n")
}
