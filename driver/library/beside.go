package library

import (
	"os"
	"path/filepath"
)

// cuSPARSE is what others ask for, and no program by itself.
var cuSPARSE = Description{
	Linux:   Names{Files: sonames("libcusparse.so", "12", "11"), Wheels: wheels("cusparse")},
	Windows: Names{Files: []string{"cusparse64_12.dll", "cusparse64_11.dll"}, Wheels: windowsWheels("cusparse")},
}

// beside are the files of libraries that one of another library asks for, in the order in which they are loaded. They lie in its
// folder, or in those of the other Python packages. One that has no folder the system's loader finds, and what it asks for as well.
func beside(file string, asked ...Description) (files []string) {
	if _, err := os.Stat(file); err != nil || !filepath.IsAbs(file) {
		return nil
	}
	folder := filepath.Dir(file)
	for _, d := range asked {
		names, list := d.names(), newList()
		list.addBelow(folder, []string{"."}, names.Files)
		list.addBelow(filepath.Join(folder, "..", "..", ".."), names.Wheels, names.Files) // site-packages
		for _, candidate := range list.all {
			if _, err := os.Stat(candidate); err == nil {
				files = append(files, candidate)
				break
			}
		}
	}
	return files
}
