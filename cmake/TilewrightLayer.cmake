# tilewright_layer(NAME [KNOWS layer...] [LIBRARIES target...])
#
# One static library per layer of the architecture: public headers under
# sc_include/tilewright/NAME, sources under sc_src/NAME. KNOWS names the layers it may use. Users
# link it as tilewright::NAME, in the build tree and from an installed package.
function(tilewright_layer name)
  cmake_parse_arguments(ARG "" "" "KNOWS;LIBRARIES" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/sc_src/${name}/*.cpp")
  add_library(tilewright_${name} STATIC ${sources})
  add_library(tilewright::${name} ALIAS tilewright_${name})
  set_target_properties(tilewright_${name} PROPERTIES EXPORT_NAME ${name})
  set_property(GLOBAL APPEND PROPERTY TILEWRIGHT_LAYERS ${name})
  target_include_directories(tilewright_${name} PUBLIC
    "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/sc_include>"
    "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
  target_compile_features(tilewright_${name} PUBLIC cxx_std_17)
  target_compile_options(tilewright_${name} PRIVATE -Wall -Wextra -Wpedantic
    $<$<BOOL:${TILEWRIGHT_WERROR}>:-Werror>)
  foreach(layer IN LISTS ARG_KNOWS)
    target_link_libraries(tilewright_${name} PUBLIC tilewright_${layer})
  endforeach()
  target_link_libraries(tilewright_${name} PUBLIC ${ARG_LIBRARIES})
endfunction()
