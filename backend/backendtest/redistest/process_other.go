//go:build !linux

package redistest

import "syscall"

func diesWithItsThread() *syscall.SysProcAttr { return nil }
