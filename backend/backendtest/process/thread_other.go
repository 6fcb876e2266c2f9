//go:build !linux

package process

import "syscall"

func dieWithThread(*syscall.SysProcAttr) {}
