//go:build linux

package cluster_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/cluster"
)

// inNamespace says that this process has a network of its own.
const inNamespace = "CLUSTER_TEST_IN_NAMESPACE"

// alone runs a test once more in a process with a network of its own, and tells whether this is that process. It skips the test where
// there is no right to have one.
func alone(t *testing.T) bool {
	t.Helper()
	if os.Getenv(inNamespace) != "" {
		return true
	}
	for _, program := range []string{"ip", "nsenter"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("servers in networks of their own need %s: %v", program, err)
		}
	}
	cmd := exec.Command(os.Args[0], "-test.v", "-test.run=^"+t.Name()+"$", "-test.timeout="+flag.Lookup("test.timeout").Value.String())
	cmd.Env = append(os.Environ(), inNamespace+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 { // root of a namespace of users may have networks
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Skipf("servers in networks of their own need the right to make them: %v", err)
	}
	err := cmd.Wait()
	t.Logf("%s", &out)
	require.NoError(t, err)
	if bytes.Contains(out.Bytes(), []byte("--- SKIP: "+t.Name()+" ")) {
		t.SkipNow() // it has said why
	}
	return false
}

// islands are three servers, each in a network of its own. Those are joined by a bridge in the network of the test.
type islands struct {
	t    *testing.T
	all  []*process
	ips  []string
	urls string
}

// bridged counts the servers at the bridge of this process: no address comes twice, because others may remember it.
var bridged int

// apart starts three servers.
func apart(t *testing.T) *islands {
	t.Helper()
	s := &islands{t: t}
	if bridged == 0 {
		for _, command := range []string{"link set lo up", "link add bridge type bridge", "link set bridge up", "addr add 10.99.0.1/16 dev bridge"} {
			if out, err := exec.Command("ip", strings.Fields(command)...).CombinedOutput(); err != nil {
				t.Skipf("servers in networks of their own need a bridge: ip %s: %v: %s", command, err, out)
			}
		}
	}
	var configs []serverConfig
	var routes, urls []string
	for i := range 3 {
		bridged++
		ip := fmt.Sprintf("10.99.%d.%d", 1+bridged/250, 1+bridged%250)
		configs = append(configs, serverConfig{Folder: t.TempDir(), Name: fmt.Sprint("server", i), IP: ip, Port: 4222, Route: 6222})
		s.ips, routes, urls = append(s.ips, ip), append(routes, ip+":6222"), append(urls, "nats://"+ip+":4222")
	}
	for i, c := range configs {
		c.Routes = routes
		launch(t, asServer, c, func(p *process) {
			s.all = append(s.all, p)
			p.attributes.Cloneflags = syscall.CLONE_NEWNET
			link := fmt.Sprint("server", bridged-2+i)
			p.started = func() {
				s.run("ip", fmt.Sprintf("link add %s type veth peer name eth0 netns %d", link, p.cmd.Process.Pid))
				s.run("ip", "link set "+link+" master bridge up")
				s.of(i, "link set lo up")
				s.of(i, "link set eth0 up")
				s.of(i, "addr add "+s.ips[i]+"/16 dev eth0")
			}
		})
	}
	s.urls = strings.Join(urls, ",")
	return s
}

func (s *islands) run(program, arguments string) {
	out, err := exec.Command(program, strings.Fields(arguments)...).CombinedOutput()
	assert.NoError(s.t, err, "%s %s: %s", program, arguments, out)
}

// of runs ip in the network of a server.
func (s *islands) of(i int, arguments string) {
	s.run("nsenter", fmt.Sprintf("-t %d -n ip %s", s.all[i].cmd.Process.Pid, arguments))
}

// cut parts the servers of which one is chosen. Packets are lost without a word ("blackhole"), or whoever sends one hears of it
// ("unreachable").
func (s *islands) cut(how string, chosen func(i int) bool) {
	for i := range s.all {
		for j, ip := range s.ips {
			if i != j && (chosen(i) || chosen(j)) {
				s.of(i, "route add "+how+" "+ip)
			}
		}
	}
}

func (s *islands) mend() {
	for i := range s.all {
		for _, how := range []string{"blackhole", "unreachable"} {
			s.of(i, "route flush type "+how)
		}
	}
}

// TestPartition has three servers that lose sight of each other, first for a moment and then for longer than the patience: none can accept
// anything, though each of them is there.
func TestPartition(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for the patience of calls: half a minute")
	}
	if !alone(t) {
		return
	}
	s := apart(t)
	workers(t, s.urls, 2)
	c := caller(t, s.urls, 2)
	require.Equal(t, 3, streamInfo(t, s.urls, "purecuda_v1_work").Config.Replicas)
	drop := func() { s.cut("blackhole", func(int) bool { return true }) }
	f, wait := once(func() { drop(); time.Sleep(2 * time.Second); s.mend() })
	squares(t, c, "slow/v1", 200, at(t, 20, f))
	wait()
	f, wait = once(drop)
	_, err := cluster.Scatter(within(t), c, "slow/v1", 2000, func(i int) (cluster.Piece, error) { return cluster.Piece{Data: number(uint64(i))}, nil },
		func(int, []byte) error { return nil }, at(t, 20, f), cluster.WithPatience(4*time.Second))
	wait()
	assert.ErrorIs(t, err, cluster.ErrDisconnected)
	assert.ErrorContains(t, err, "with 3 replicas")
	s.mend()
	squares(t, c, "slow/v1", 100)
}
