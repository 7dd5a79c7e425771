// Package findings lists what is not plainly balanced over all ready endpoints on a node,
// each with the field of an object that causes it.
//
//	Document --Of--> []Finding --> kube-vmap problems, kubectl vmap problems, the pages
//
// Everything follows from the document, so that any program can list the findings of a
// node. A Service of which nothing is listed sends each new connection to any of its ready
// endpoints, whoever the client is.
package findings
