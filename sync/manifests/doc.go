// Package manifests reads Kubernetes manifests, YAML or JSON, from a folder or a
// single file, and follows their changes.
//
//	folder --> files --> YAML documents --> objects --> package convert --> model values
//	   |      listing       documents       parser                              |
//	   +-- every 250 ms: changed?                                 changes: []sync.Event
//
// It reads Services, EndpointSlices, ServiceCIDRs and the proxy's own Node, alone or
// in lists, and skips other kinds. In a folder it reads the files *.yaml, *.yml and
// *.json, but no dotfiles and nothing in subfolders. If several documents describe
// one object, the first in the order of file names counts.
//
// An object is what its document says now, or gone if that cannot be used. Only while
// text cannot be recognised at all, or a file is empty, as files are before they are
// written, the objects stay that the file may contain. Such Services count as the
// youngest, and hold no address against another one. If the folder itself, or the
// single file, disappears, everything stays, and the source waits for it to return.
package manifests
