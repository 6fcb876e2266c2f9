package manifest

import goyaml "go.yaml.in/yaml/v3"

const (
	// maxUnfolded bounds what manifests hold once their YAML aliases are followed, roughly in bytes. Without aliases the
	// largest file that weir reads is below it.
	maxUnfolded = 64 << 20
	nodeCost    = 24
	maxDepth    = 1000
)

// unfolded measures manifests as they are read, which is with aliases followed. A file of a few lines can name more that
// way than a machine holds, or itself.
type unfolded struct{ bytes int }

// add counts nodes and what is below them. It reports false once that is more than can be meant.
func (u *unfolded) add(nodes []*goyaml.Node, depth int) bool {
	for _, n := range nodes {
		n = follow(n)
		u.bytes += nodeCost + len(n.Value)
		if u.bytes > maxUnfolded || depth > maxDepth || !u.add(n.Content, depth+1) {
			return false
		}
	}
	return true
}
