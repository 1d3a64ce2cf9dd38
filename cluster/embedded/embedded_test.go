package embedded_test

import (
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/cluster/embedded"
)

func TestStartSaysWhyNot(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	for name, c := range map[string]struct {
		listen, token, want string
	}{
		"a port that is taken": {taken.Addr().String(), "a token", "listening on port"},
		"no port":              {"127.0.0.1", "a token", "want an address and a port"},
		"no token":             {"127.0.0.1:0", "", "needs a Token"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := embedded.Start(embedded.Config{Listen: c.listen, Token: c.token, Folder: t.TempDir()})
			assert.ErrorContains(t, err, c.want)
		})
	}
}
