package nvrtc

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
)

// NVRTC does not tell which files a program has included, and a file that appears in an earlier
// directory can take the place of another. So this does not ask which file a directive means, but
// takes in every file that it could mean, and every file that these could include, whatever #if
// says. It takes their names, and their contents or that they are not there. Whenever all of that
// is as it was, so is the result of the compile.

// maxIncluded bounds what is read: beyond it a program is not cached.
const maxIncluded = 256 << 20

// includeWords are in every line that may name a header: with #include and its kin,
// __has_include, or a macro around those. The first letter may be of either case.
var includeWords = []string{"nclude", "NCLUDE", "mport"}

// computedInclude is a directive whose name is the value of a macro.
var computedInclude = regexp.MustCompile(`^(?:.*\*/)?[ \t]*(?:#|%:|\?\?=)[ \t]*(?:/\*.*?\*/[ \t]*)*(?:include|include_next|import)\b[ \t]*(?:/\*.*?\*/[ \t]*)*[\pL_$\\]`)

// addFiles adds every file that a program may include to a digest. why says why that is
// not known.
func addFiles(d digest, p Program) (why string) {
	type text struct{ content, dir string }
	// Whether that directory is searched depends on the options: see Options.list.
	sourceDir := filepath.Dir(p.name())
	queue := []text{{p.Source, sourceDir}}
	for _, h := range p.headers() {
		queue = append(queue, text{h.Text, sourceDir})
	}
	seen := map[string]bool{}
	for read := 0; len(queue) > 0; queue = queue[1:] {
		names, computed := headerNames(queue[0].content)
		if computed != "" {
			return "a header is named by a macro: " + computed
		}
		for _, name := range names {
			for _, path := range places(name, queue[0].dir, p.IncludePaths) {
				if seen[path] {
					continue
				}
				seen[path] = true
				file, err := readHeader(path, maxIncluded-read)
				switch {
				case err == nil:
					d.add("file", path, string(file))
					queue = append(queue, text{string(file), filepath.Dir(path)})
				case isAbsent(err):
					d.add("none", path)
				default:
					return err.Error()
				}
				read += len(file)
			}
		}
	}
	return ""
}

// headerNames are all names that a text may include, and the first directive that does not
// say what it includes. Searching for words first makes this as fast as reading the files.
func headerNames(text string) (names []string, computed string) {
	// A line that ends in a backslash goes on in the next one.
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\\\r\n", ""), "\\\n", "")
	for _, word := range includeWords {
		for rest := text; ; {
			at := strings.Index(rest, word)
			if at < 0 {
				break
			}
			line := rest[strings.LastIndexByte(rest[:at], '\n')+1:]
			line, rest, _ = strings.Cut(line, "\n")
			if computedInclude.MatchString(line) {
				return nil, strings.TrimSpace(line)
			}
			names = appendQuoted(names, line)
		}
	}
	return names, ""
}

// appendQuoted appends all texts in a line that stand in <> or in quotes.
func appendQuoted(names []string, line string) []string {
	for {
		open := strings.IndexAny(line, "<\"")
		if open < 0 {
			return names
		}
		end := byte('"')
		if line[open] == '<' {
			end = '>'
		}
		name, rest, ok := strings.Cut(line[open+1:], string(end))
		if line = line[open+1:]; ok && name != "" {
			names = append(names, name)
			line = rest
		}
	}
}

// places are the files that a name in a file of a directory can mean.
func places(name, dir string, includePaths []string) []string {
	if filepath.IsAbs(name) {
		return []string{name}
	}
	list := []string{filepath.Join(dir, name)}
	for _, include := range includePaths {
		list = append(list, filepath.Join(include, name))
	}
	return list
}

// readHeader reads a file of at most max bytes. What is no regular file is not there: a
// pipe would block, and a device has no end.
func readHeader(path string, max int) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fs.ErrNotExist
	case info.Size() > int64(max):
		return nil, errors.New("too many bytes of headers")
	}
	return os.ReadFile(path)
}

// isAbsent reports whether there is no such file, as opposed to one that cannot be read.
func isAbsent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) ||
		errors.Is(err, syscall.ENAMETOOLONG) || errors.Is(err, syscall.EINVAL)
}
