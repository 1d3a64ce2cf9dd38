//go:build unix

package doctor

import (
	"os/exec"
	"syscall"
)

// ownGroup starts a command in a process group of its own, which what a library forks is part of.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// killGroup kills the command, which was started, and what it has left in its group.
func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

// killOwnGroup kills this process and its group, if that is its own.
func killOwnGroup() {
	if syscall.Getpgrp() == syscall.Getpid() {
		_ = syscall.Kill(0, syscall.SIGKILL)
	}
}
