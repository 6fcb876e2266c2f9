//go:build !linux

package file

import "io/fs"

// changed is not known here; the modification time has to do.
func changed(fs.FileInfo) int { return 0 }
