package cluster_test

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/cluster"
)

func TestKillWorker(t *testing.T) {
	_, urls := servers(t, 1)
	all := workers(t, urls, 2)
	c := caller(t, urls, 2)
	kill, killed := once(all[0].kill)
	squares(t, c, "slow/v1", 200, at(t, 20, kill))
	killed()
	require.Eventually(t, func() bool { return len(c.Hosts()) == 1 }, patience, 50*time.Millisecond)
}

func TestKillChild(t *testing.T) {
	_, urls := servers(t, 1)
	workers(t, urls, 2)
	c := caller(t, urls, 2)
	out, _, err := cluster.Do(within(t), c, "pid/v1", cluster.Piece{})
	require.NoError(t, err)
	pid, err := strconv.Atoi(string(out))
	require.NoError(t, err)
	child, err := os.FindProcess(pid)
	require.NoError(t, err)
	kill, killed := once(func() { assert.NoError(t, child.Kill()) })
	squares(t, c, "slow/v1", 200, at(t, 20, kill))
	killed()
}

func TestKillOnlyServer(t *testing.T) {
	for name, options := range map[string][]cluster.Option{"file": {cluster.WithFileStorage()}, "memory": {cluster.WithMemoryStorage()}} {
		t.Run(name, func(t *testing.T) {
			all, urls := servers(t, 1)
			workers(t, urls, 2)
			c := caller(t, urls, 2, options...)
			kill, killed := once(func() {
				all[0].kill()
				time.Sleep(200 * time.Millisecond)
				all[0].start()
			})
			squares(t, c, "slow/v1", 200, at(t, 20, kill))
			killed()
		})
	}
}

func TestKillOneOfThreeServers(t *testing.T) {
	all, urls := servers(t, 3)
	workers(t, urls, 2)
	c := caller(t, urls, 2, cluster.WithReplicas(3))
	kill, killed := once(all[0].kill)
	squares(t, c, "slow/v1", 200, at(t, 20, kill))
	killed()
}
