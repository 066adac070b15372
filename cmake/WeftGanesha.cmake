# The patched NFS-Ganesha that tools/dev/ganesha.sh installs in WEFT_GANESHA_PREFIX. Sets
#   WEFT_GANESHA_FOUND
#   WEFT_GANESHA_NFSD        the server's path
#   WEFT_GANESHA_FSAL_DIR    the server's own FSALs (its default Plugins_Dir)
#   WEFT_GANESHA_INSTALLED   where the prefix is at run time: another than here when DESTDIR was given
# and, if found, defines the imported target weft_ganesha_headers: the include folders and
# definitions with which the server itself was compiled. An FSAL must be compiled with exactly
# these, since they change the layout of structures it shares with the server. It needs no library: the
# server's symbols are resolved when it loads the FSAL.
set(WEFT_GANESHA_FOUND FALSE)
set(WEFT_GANESHA_INSTALLED ${WEFT_GANESHA_PREFIX} CACHE PATH
    "Where what is in WEFT_GANESHA_PREFIX will be installed")
if(EXISTS ${WEFT_GANESHA_PREFIX}/.weft-stamp
   AND EXISTS ${WEFT_GANESHA_PREFIX}/include/ganesha/config.h)
  set(WEFT_GANESHA_FOUND TRUE)
  set(WEFT_GANESHA_NFSD ${WEFT_GANESHA_PREFIX}/bin/ganesha.nfsd)
  set(WEFT_GANESHA_FSAL_DIR ${WEFT_GANESHA_PREFIX}/lib/ganesha)
  if(NOT TARGET weft_ganesha_headers)
    add_library(weft_ganesha_headers INTERFACE IMPORTED GLOBAL)
    target_include_directories(weft_ganesha_headers SYSTEM INTERFACE
      ${WEFT_GANESHA_PREFIX}/include/ganesha
      ${WEFT_GANESHA_PREFIX}/include/ganesha/os/linux
      ${WEFT_GANESHA_PREFIX}/include/ntirpc)
    target_compile_definitions(weft_ganesha_headers INTERFACE
      HAS_DOFF _GNU_SOURCE=1 _LARGEFILE64_SOURCE _FILE_OFFSET_BITS=64)
    target_compile_options(weft_ganesha_headers INTERFACE -fno-strict-aliasing)
  endif()
else()
  message(STATUS "No patched Ganesha in ${WEFT_GANESHA_PREFIX} (tools/dev/ganesha.sh makes it)")
endif()
