package file

import (
	"os"
	"testing"
	"time"
)

func TestAReloadThatIsAskedForReadsAtOnceAndSaysWhatItFound(t *testing.T) {
	dir := t.TempDir()
	write(t, config("a", 1), dir, "a.yaml")
	write(t, config("b", 1), dir, "b.yaml")
	var d *Dir
	watch(t, dir, func(made *Dir) { d = made }, func(t *testing.T, w *watched) {
		reload := func() { d.Reload(); w.pass(0) }
		w.expect(1, 2, "the first load")
		reload()
		w.expect(2, 2, "nothing has changed, and it is read all the same")

		write(t, config("a", 2), dir, "a.yaml")
		reload()
		w.expect(3, 3, "it waits for no look")
		w.pass(time.Minute)
		w.expect(3, 3, "what was asked for is not loaded twice")

		write(t, "descriptors: ][", dir, "a.yaml")
		reload()
		w.expectErrors("a.yaml:1: ")
		w.pass(time.Minute)
		reload()
		w.expect(3, 3, "it is still wrong")
		w.expectLogged("configuration not loaded", 2)
		write(t, config("a", 2), dir, "a.yaml")
		reload()
		w.expect(4, 3, "it is what is in force, but whoever was told of an error must be told of its end")

		must(t, os.Rename(dir, dir+".away"))
		reload()
		w.expect(4, 3, "the directory is away: the last good configuration stays")
		w.expectLogged("does not exist", 1)
		must(t, os.Rename(dir+".away", dir))
	})
}
