package file

import (
	"io/fs"
	"syscall"
)

// changed is when a file was last written or renamed. Unlike its modification time, nobody can set it back.
func changed(info fs.FileInfo) syscall.Timespec {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Ctim
	}
	return syscall.Timespec{}
}
