package dl

import (
	"os"
	"sync"
)

// Getenv is os.Getenv for a variable that names code to load. It is empty where this process has gained privileges: by
// a set-user-ID bit, or by capabilities of its file. Who starts such a program may not choose what it runs. The system's
// loader ignores LD_LIBRARY_PATH there for the same reason.
func Getenv(variable string) string {
	if gained() {
		return ""
	}
	return os.Getenv(variable)
}

var gained = sync.OnceValue(gainedPrivileges)
