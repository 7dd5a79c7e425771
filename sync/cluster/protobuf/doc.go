// Package protobuf decodes Services and EndpointSlices from the API's protobuf encoding
// (generated.proto in k8s.io/api), and only what package convert reads of them.
//
// The generated decoders of k8s.io/api copy everything to new memory, and most of an object is not
// for proxies: managed fields, owners, target references, annotations of tools. Here that is
// skipped, and each object is decoded into the memory of the one before. [Decoder] decodes metadata
// and endpoints, which are most of each object, and leaves the rest to the generated decoders.
//
// # Another field, annotation or label
//
// Fields of the spec and status of a Service and of ports are all decoded. A label or an
// annotation that package convert begins to read must be added to its Keys, a field of
// metadata or endpoints to meta.go or slice.go: FuzzDecodedObjectsAreConvertedTheSame
// fails otherwise, if converttest.Draw draws it.
package protobuf
