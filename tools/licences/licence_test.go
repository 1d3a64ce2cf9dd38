package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mit is the text that most modules have.
const mit = `Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated
documentation files (the "Software"), to deal in the Software without restriction, including without limitation the rights
to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit persons to
whom the Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the
Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE
WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR
COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR
OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
`

// isc is another one, for a folder of its own.
const isc = `Permission to use, copy, modify, and/or distribute this software for any purpose with or without fee is hereby
granted, provided that the above copyright notice and this permission notice appear in all copies.

THE SOFTWARE IS PROVIDED "AS IS" AND THE AUTHOR DISCLAIMS ALL WARRANTIES WITH REGARD TO THIS SOFTWARE INCLUDING ALL
IMPLIED WARRANTIES OF MERCHANTABILITY AND FITNESS. IN NO EVENT SHALL THE AUTHOR BE LIABLE FOR ANY SPECIAL, DIRECT,
INDIRECT, OR CONSEQUENTIAL DAMAGES OR ANY DAMAGES WHATSOEVER RESULTING FROM LOSS OF USE, DATA OR PROFITS, WHETHER IN AN
ACTION OF CONTRACT, NEGLIGENCE OR OTHER TORTIOUS ACTION, ARISING OUT OF OR IN CONNECTION WITH THE USE OR PERFORMANCE OF
THIS SOFTWARE.
`

func TestLicence(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  string // the licences, or
		err   string // a part of the error
	}{
		"one file":                   {map[string]string{"LICENSE": mit}, "MIT", ""},
		"other names":                {map[string]string{"Licence.md": mit, "NOTICE": "Copyright somebody"}, "MIT", ""},
		"a package of its own":       {map[string]string{"COPYING": mit, "linked/LICENSE.txt": isc}, "ISC, MIT", ""},
		"a package that is not used": {map[string]string{"LICENSE": mit, "other/LICENSE": "All rights reserved"}, "MIT", ""},
		"a program of that name":     {map[string]string{"LICENSE": mit, "license.go": "package x"}, "MIT", ""},
		"none":                       {map[string]string{"README": mit}, "", "no file says what its licence is"},
		"unknown":                    {map[string]string{"LICENSE": "All rights reserved by somebody"}, "", "0% of it is a known licence"},
		"a notice only":              {map[string]string{"NOTICE": mit}, "", "no file says"},
		"not accepted": {map[string]string{"LICENSE": "This program is free software: you can redistribute it and/or modify it under the " +
			"terms of the GNU General Public License as published by the Free Software Foundation, either version 3 of the License, " +
			"or (at your option) any later version."}, "", "not one of those that are accepted"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			m := &module{Path: "example.org/m", Version: "v1.2.3", Dir: dir, folders: map[string]bool{filepath.Join(dir, "linked"): true}}
			for _, folder := range []string{"linked", "other"} {
				if err := os.Mkdir(filepath.Join(dir, folder), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			for name, text := range c.files {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			got, _, err := m.licence()
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("error %v, want %q", err, c.err)
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestLibraryPackages(t *testing.T) {
	t.Chdir("..") // where the program runs
	got, err := libraryPackages()
	if err != nil {
		t.Fatal(err)
	}
	const path = "github.com/purecuda/purecuda/"
	if !slices.Contains(got, path+"driver") || slices.Contains(got, path+"cmd/smoke") || slices.Contains(got, path+"driver/drivertest") {
		t.Error(got)
	}
}

func TestFontsAreRefused(t *testing.T) {
	m := &module{Path: "example.org/m", Version: "v1.2.3", embedded: []string{"a.txt", "fonts/A-Bold.ttf.gz"}}
	if _, _, err := m.licence(); err == nil || !strings.Contains(err.Error(), "fonts/A-Bold.ttf.gz") {
		t.Errorf("a font that nobody has read about: %v", err)
	}
}

func TestTidy(t *testing.T) {
	for text, want := range map[string]string{
		"\n a \t\r\nb\f\n\n": " a\nb",
		"\xa9 Zo\xeb":        "© Zoë",
		"© Zoë":              "© Zoë",
	} {
		if got := normalize(text); got != want {
			t.Errorf("tidy(%q) = %q, want %q", text, got, want)
		}
	}
}
