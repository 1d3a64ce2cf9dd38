//go:build unix

package conformance

import (
	"syscall"

	"github.com/stretchr/testify/require"
)

func closeFD(e *env, fd int) {
	e.Helper()
	require.NoError(e.T, syscall.Close(fd))
}
